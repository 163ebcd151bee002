#include "traced_transport.h"

#include <utility>

namespace tally::bench {

thread_local OperationTrace* trace_to_open = nullptr;
std::function<void()> on_attach;

void OperationTrace::arm() noexcept {
  for (auto* each : {&lent, &first_sent, &last_sent, &last_empty, &last_found, &last_taken}) *each = 0;
  armed.store(true, std::memory_order_release);
}

namespace {

class TracedTransport final : public Transport {
 public:
  TracedTransport(std::unique_ptr<Transport> inside, OperationTrace& trace)
      : inside_(std::move(inside)), trace_(trace) {}

  Result<void> attach() override {
    auto attached = inside_->attach();
    if (on_attach) on_attach();
    return attached;
  }
  std::uint16_t most_elements() const noexcept override { return inside_->most_elements(); }
  std::size_t receive(const DatagramSink& sink) override {
    if (!armed()) return inside_->receive(sink);
    const TimeNs begun = steady_now();
    const std::size_t handed = inside_->receive(sink);
    if (trace_.first_sent == 0) return handed;
    if (handed == 0) {
      empty_ = begun;
    } else {
      trace_.last_empty = empty_;
      trace_.last_found = begun;
      trace_.last_taken = steady_now();
    }
    return handed;
  }
  std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) override {
    if (armed()) first(trace_.lent);
    return inside_->lend(wanted, bytes);
  }
  void send(std::size_t filled) override {
    inside_->send(filled);
    if (!armed() || filled == 0) return;
    first(trace_.first_sent);
    trace_.last_sent = steady_now();
    empty_ = trace_.last_sent;
  }
  void joined(const engine::Membership& membership) override { inside_->joined(membership); }
  void wait(TimeNs now, TimeNs until) override { inside_->wait(now, until); }
  void wake() noexcept override { inside_->wake(); }
  std::string describe() const override { return inside_->describe(); }
  std::string trouble() const override { return inside_->trouble(); }

 private:
  [[nodiscard]] bool armed() const noexcept { return trace_.armed.load(std::memory_order_acquire); }
  static void first(std::atomic<TimeNs>& when) noexcept {
    if (when == 0) when = steady_now();
  }

  std::unique_ptr<Transport> inside_;
  OperationTrace& trace_;
  TimeNs empty_ = 0;
};

Result<std::unique_ptr<Transport>> open(const TransportOptions& options) {
  auto inside = make_transport(options.device, options);
  if (!inside) return inside;
  return std::unique_ptr<Transport>(std::make_unique<TracedTransport>(std::move(*inside), *trace_to_open));
}

}  // namespace

void register_traced_transport() { register_transport("traced", &open); }

}  // namespace tally::bench
