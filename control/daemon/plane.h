#pragma once
// What control needs of the data plane, as an interface: the daemon's loop runs in unit tests against a plane
// without DPDK. Called by the control thread only. Meanings: data_plane.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/data_plane.h"

namespace tally::daemon {

class Plane {
 public:
  Plane() = default;
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;
  virtual ~Plane() = default;

  virtual void publish(jobs::Publication publication) = 0;
  [[nodiscard]] virtual std::uint64_t adopted() const = 0;
  [[nodiscard]] virtual std::optional<io::Punt> next_punt(std::span<std::byte> out) = 0;
  virtual bool inject(const jobs::Binding& to, std::span<const std::byte> datagram) = 0;
  [[nodiscard]] virtual std::optional<pipeline::Event> next_event() = 0;

  [[nodiscard]] virtual Result<void> begin_trace(const io::TraceFilter& filter) = 0;
  virtual void end_trace() = 0;
  [[nodiscard]] virtual bool next_traced(io::TracedFrame& out) = 0;
  [[nodiscard]] virtual std::uint64_t trace_lost() const = 0;

  [[nodiscard]] virtual std::size_t cores() const = 0;
  [[nodiscard]] virtual std::size_t ports() const = 0;
  [[nodiscard]] virtual std::string port_name(PortIndex port) const = 0;
  [[nodiscard]] virtual dpdk::PortLink link(PortIndex port) const = 0;
  virtual dpdk::PortLink follow(PortIndex port, TimeNs now) = 0;
  [[nodiscard]] virtual std::uint64_t rate(PortIndex port) const = 0;
  virtual void announce(PortIndex port) = 0;
  [[nodiscard]] virtual dpdk::PortStatistics port_statistics(PortIndex port) const = 0;
  virtual void impair(PortIndex port, const impair::PortImpairment& faults) = 0;
  [[nodiscard]] virtual io::DataPlane::ImpairedPort impaired(PortIndex port) const = 0;
  [[nodiscard]] virtual const io::CoreStatistics& statistics(std::size_t core) const = 0;
  [[nodiscard]] virtual JobCounters counters(std::size_t core, JobId job) const = 0;
  [[nodiscard]] virtual const pipeline::JobState& state(std::size_t core, JobId job) const = 0;
  [[nodiscard]] virtual server::MergeCounters server(std::size_t core) const = 0;
  [[nodiscard]] virtual std::size_t hosts() const = 0;
  [[nodiscard]] virtual std::uint32_t mbufs_in_use() const = 0;
};

// The real one. The data plane outlives it.
class RunningPlane final : public Plane {
 public:
  explicit RunningPlane(io::DataPlane& plane) noexcept : plane_(plane) {}

  void publish(jobs::Publication publication) override { plane_.publish(std::move(publication)); }
  std::uint64_t adopted() const override { return plane_.adopted(); }
  std::optional<io::Punt> next_punt(std::span<std::byte> out) override { return plane_.next_punt(out); }
  bool inject(const jobs::Binding& to, std::span<const std::byte> datagram) override {
    return plane_.inject(to, datagram);
  }
  std::optional<pipeline::Event> next_event() override { return plane_.next_event(); }

  Result<void> begin_trace(const io::TraceFilter& filter) override { return plane_.begin_trace(filter); }
  void end_trace() override { plane_.end_trace(); }
  bool next_traced(io::TracedFrame& out) override { return plane_.next_traced(out); }
  std::uint64_t trace_lost() const override { return plane_.trace_lost(); }

  std::size_t cores() const override { return plane_.cores(); }
  std::size_t ports() const override { return plane_.ports(); }
  std::string port_name(PortIndex port) const override { return plane_.port(port).name(); }
  dpdk::PortLink link(PortIndex port) const override { return plane_.port(port).link(); }
  dpdk::PortLink follow(PortIndex port, TimeNs now) override { return plane_.follow(port, now); }
  std::uint64_t rate(PortIndex port) const override { return plane_.port(port).rate(); }
  void announce(PortIndex port) override { plane_.announce(port); }
  dpdk::PortStatistics port_statistics(PortIndex port) const override { return plane_.port_statistics(port); }
  void impair(PortIndex port, const impair::PortImpairment& faults) override { plane_.impair(port, faults); }
  io::DataPlane::ImpairedPort impaired(PortIndex port) const override { return plane_.impaired(port); }
  const io::CoreStatistics& statistics(std::size_t core) const override {
    return plane_.core(core).statistics;
  }
  JobCounters counters(std::size_t core, JobId job) const override { return plane_.core(core).counters(job); }
  const pipeline::JobState& state(std::size_t core, JobId job) const override {
    return plane_.core(core).state(job);
  }
  server::MergeCounters server(std::size_t core) const override { return plane_.core(core).server(); }
  std::size_t hosts() const override { return plane_.hosts(); }
  std::uint32_t mbufs_in_use() const override { return plane_.mbufs_in_use(); }

 private:
  io::DataPlane& plane_;
};

}  // namespace tally::daemon
