#pragma once
// The ports of the clients, and a session run over them by one thread: frames in, frames out, timers when
// nothing came.

#include <atomic>
#include <memory>
#include <vector>

#include "dpdk/mbuf.h"
#include "io/core_time.h"
#include "load_port.h"
#include "stock_session.h"
#include "tally/error.h"

namespace tally::stock {

class ClientPorts {
 public:
  // ports: at least one; rank r is behind port r mod ports. interrupted: any thread may set it; calls then
  // return soon with an error.
  ClientPorts(std::vector<std::unique_ptr<bench::LoadPort>> ports, const std::atomic<bool>& interrupted);
  ClientPorts(const ClientPorts&) = delete;
  ClientPorts& operator=(const ClientPorts&) = delete;
  ~ClientPorts();

  // All links are up.
  [[nodiscard]] Result<void> connect(TimeNs patience);
  // Until the session is done. Returns how long it took. An error: a reply was wrong, or nobody had a result
  // for `patience`.
  [[nodiscard]] Result<TimeNs> run(StockSession& session, TimeNs patience);

 private:
  // Sends are taken up to so many; nothing more is received or made while these wait.
  static constexpr std::size_t kWaiting = 32;
  struct Lane {
    std::vector<rte_mbuf*> waiting{};
    rte_mbuf* spare = nullptr;  // for the next frame that is made
  };

  [[nodiscard]] Result<void> look(const StockSession& session, TimeNs now, TimeNs patience);
  [[nodiscard]] bool turn(StockSession& session, std::size_t port);  // whether anything moved
  [[nodiscard]] std::size_t receive(StockSession& session, std::size_t port, TimeNs now);
  void make(StockSession& session, std::size_t port, TimeNs now, bool idle);
  [[nodiscard]] bool offer_waiting(std::size_t port);

  std::vector<std::unique_ptr<bench::LoadPort>> ports_;
  const std::atomic<bool>& interrupted_;
  std::vector<Lane> lanes_;
  io::CoreClock clock_;
  dpdk::MbufCounters mbufs_{};
  TimeNs look_due_ = 0;
  std::uint64_t progress_ = 0;
  TimeNs progressed_ = 0;  // when progress_ was last another
};

}  // namespace tally::stock
