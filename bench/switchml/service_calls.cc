#include "service_calls.h"

#include <grpcpp/grpcpp.h>
#include <session_service.grpc.pb.h>

#include <bit>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace tally::stock {

namespace proto = switchml_proto;

class ServiceCalls::Client {
 public:
  explicit Client(const std::string& target) {
    grpc::ChannelArguments own;  // clients are processes of their own: no two share a connection
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), own);
    session_ = proto::Session::NewStub(channel);
    sync_ = proto::Sync::NewStub(channel);
  }

  // What it was told; empty: it has its session.
  std::string ask(std::uint32_t rank, std::uint32_t workers, std::uint32_t payload, StockAddresses& own) {
    std::uint64_t id = 0;
    if (auto no = broadcast(rank, workers, id); !no.empty()) return no;
    if (rank != 0) {
      if (auto no = barrier(workers); !no.empty()) return no;
    }
    if (auto no = udp_session(rank, workers, payload, id, own); !no.empty()) return no;
    if (rank == 0) {
      if (auto no = barrier(workers); !no.empty()) return no;
    }
    return barrier(workers);
  }

 private:
  static std::string text(const char* call, const grpc::Status& status) {
    if (status.ok()) return {};
    return std::string(call) + ": error " + std::to_string(static_cast<int>(status.error_code())) + ": " +
           status.error_message();
  }

  std::string broadcast(std::uint32_t rank, std::uint32_t workers, std::uint64_t& id) {
    proto::BroadcastRequest request;
    // The root's clock is the session's number.
    if (rank == 0)
      request.set_value(
          static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
    request.set_rank(rank);
    request.set_num_workers(workers);
    grpc::ClientContext context;
    proto::BroadcastResponse response;
    const grpc::Status status = sync_->Broadcast(&context, request, &response);
    id = response.value();
    return text("Broadcast", status);
  }

  std::string barrier(std::uint32_t workers) {
    proto::BarrierRequest request;
    request.set_num_workers(workers);
    grpc::ClientContext context;
    proto::BarrierResponse response;
    return text("Barrier", sync_->Barrier(&context, request, &response));
  }

  std::string udp_session(std::uint32_t rank, std::uint32_t workers, std::uint32_t payload, std::uint64_t id,
                          StockAddresses& own) {
    proto::UdpSessionRequest request;
    request.set_session_id(id);
    request.set_rank(rank);
    request.set_num_workers(workers);
    std::uint64_t mac = 0;
    for (const std::uint8_t byte : own.mac) mac = mac << 8U | byte;
    request.set_mac(mac);
    std::uint32_t ipv4 = 0;
    for (const std::uint8_t byte : own.ipv4) ipv4 = ipv4 << 8U | byte;
    request.set_ipv4(ipv4);
    request.set_packet_size(static_cast<proto::PacketSize>(std::countr_zero(payload / 128)));
    grpc::ClientContext context;
    proto::UdpSessionResponse response;
    const grpc::Status status = session_->UdpSession(&context, request, &response);
    for (std::size_t i = 0; i < own.switch_mac.size(); ++i)
      own.switch_mac[i] = static_cast<std::uint8_t>(response.mac() >> (40 - 8 * i));
    for (std::size_t i = 0; i < own.switch_ipv4.size(); ++i)
      own.switch_ipv4[i] = static_cast<std::uint8_t>(response.ipv4() >> (24 - 8 * i));
    return text("UdpSession", status);
  }

  std::unique_ptr<proto::Session::Stub> session_{};
  std::unique_ptr<proto::Sync::Stub> sync_{};
};

ServiceCalls::ServiceCalls(const std::string& target, std::size_t members) {
  while (clients_.size() < members) clients_.push_back(std::make_unique<Client>(target));
}
ServiceCalls::ServiceCalls(ServiceCalls&&) noexcept = default;
ServiceCalls& ServiceCalls::operator=(ServiceCalls&&) noexcept = default;
ServiceCalls::~ServiceCalls() = default;

Result<void> ServiceCalls::ask(SessionOptions& session) {
  const auto workers = static_cast<std::uint32_t>(session.members.size());
  std::vector<std::string> told(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    threads.emplace_back([&, rank] {
      told[rank] = clients_[rank]->ask(rank, workers, session.payload, session.members[rank]);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (!told[rank].empty())
      return fail(ErrorCode::kRefused, "rank " + std::to_string(rank) + ": " + told[rank],
                  "--session-service");
  }
  return {};
}

}  // namespace tally::stock
