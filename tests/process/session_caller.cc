// A client of the session service that makes the calls it is told to, for tests/process: a line of stdin each,
//   broadcast RANK WORKERS VALUE | udp RANK WORKERS MAC IPV4 SIZE | rdma | barrier WORKERS | connect COUNT
// and a line of stdout each: OK and what came, or the name of the error and its sentence. Without a deadline, as the
// original. At the end of stdin it ends.

#include <grpcpp/grpcpp.h>
#include <session_service.grpc.pb.h>

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace tally {
namespace {

namespace proto = switchml_proto;

std::string name_of(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::ABORTED:
      return "ABORTED";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    default:
      return "CODE_" + std::to_string(static_cast<int>(code));
  }
}

class Caller {
 public:
  explicit Caller(const std::string& target)
      : target_(target),
        channel_(grpc::CreateChannel(target, grpc::InsecureChannelCredentials())),
        session_(proto::Session::NewStub(channel_)),
        sync_(proto::Sync::NewStub(channel_)) {}

  std::string call(const std::string& line) {
    std::istringstream words(line);
    std::string method;
    words >> method;
    grpc::ClientContext context;
    if (method == "broadcast") {
      proto::BroadcastRequest request;
      request.set_rank(number(words));
      request.set_num_workers(number(words));
      request.set_value(number<std::uint64_t>(words));
      proto::BroadcastResponse response;
      const grpc::Status status = sync_->Broadcast(&context, request, &response);
      return text(status, std::to_string(response.value()));
    }
    if (method == "barrier") {
      proto::BarrierRequest request;
      request.set_num_workers(number(words));
      proto::BarrierResponse response;
      return text(sync_->Barrier(&context, request, &response), "");
    }
    if (method == "udp") {
      proto::UdpSessionRequest request;
      request.set_session_id(1);
      request.set_rank(number(words));
      request.set_num_workers(number(words));
      request.set_mac(number<std::uint64_t>(words));
      request.set_ipv4(number(words));
      request.set_packet_size(static_cast<proto::PacketSize>(number(words)));
      proto::UdpSessionResponse response;
      const grpc::Status status = session_->UdpSession(&context, request, &response);
      return text(status, std::to_string(response.mac()) + " " + std::to_string(response.ipv4()));
    }
    if (method == "rdma") {
      proto::RdmaSessionResponse response;
      return text(session_->RdmaSession(&context, {}, &response), "");
    }
    if (method == "connect") return connect(number(words));
    return "no such call: " + line;
  }

 private:
  template <class T = std::uint32_t>
  static T number(std::istringstream& words) {
    T value = 0;
    words >> value;
    return value;
  }
  static std::string text(const grpc::Status& status, const std::string& value) {
    return status.ok() ? "OK " + value : name_of(status.error_code()) + " " + status.error_message();
  }

  // Bare TCP connections that say nothing, and stay.
  std::string connect(std::uint32_t count) {
    const std::size_t colon = target_.rfind(':');
    addrinfo* found = nullptr;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(target_.substr(0, colon).c_str(), target_.substr(colon + 1).c_str(), &hints, &found) !=
        0)
      return "no such address";
    std::uint32_t done = 0;
    for (; done < count; ++done) {
      const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd < 0 || ::connect(fd, found->ai_addr, found->ai_addrlen) != 0) break;
    }
    ::freeaddrinfo(found);
    return "OK " + std::to_string(done);
  }

  std::string target_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<proto::Session::Stub> session_;
  std::unique_ptr<proto::Sync::Stub> sync_;
};

int run(const std::string& target) {
  Caller caller(target);
  for (std::string line; std::getline(std::cin, line);) std::cout << caller.call(line) << std::endl;
  return 0;
}

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "tally_session_caller HOST:PORT\n";
    return 2;
  }
  return tally::run(argv[1]);
}
