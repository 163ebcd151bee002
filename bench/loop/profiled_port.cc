#include "loop_profile.h"

#include <rte_ethdev.h>

namespace tally::bench {

ProfiledPort::ProfiledPort(std::uint16_t ethdev)
    : ethdev_(ethdev),
      receive_(rte_eth_fp_ops[ethdev].rx_pkt_burst),
      transmit_(rte_eth_fp_ops[ethdev].tx_pkt_burst),
      receive_queue_(rte_eth_fp_ops[ethdev].rxq.data),
      transmit_queue_(rte_eth_fp_ops[ethdev].txq.data),
      queue_{this} {
  auto& burst = rte_eth_fp_ops[ethdev];
  burst.rx_pkt_burst = [](void* port, rte_mbuf** m, std::uint16_t count) {
    const StepRow before = loop_profile.enter(StepRow::kPortReceive, read_tsc());
    const auto* const self = static_cast<ProfiledPort*>(port);
    count = self->receive_(self->receive_queue_[0], m, count);
    loop_profile.enter(before, read_tsc());
    return count;
  };
  burst.tx_pkt_burst = [](void* port, rte_mbuf** m, std::uint16_t count) {
    const StepRow before = loop_profile.enter(StepRow::kPortTransmit, read_tsc());
    const auto* const self = static_cast<ProfiledPort*>(port);
    count = self->transmit_(self->transmit_queue_[0], m, count);
    loop_profile.enter(before, read_tsc());
    return count;
  };
  burst.rxq.data = queue_.data();
  burst.txq.data = queue_.data();
}

ProfiledPort::~ProfiledPort() {
  auto& burst = rte_eth_fp_ops[ethdev_];
  burst.rx_pkt_burst = receive_;
  burst.tx_pkt_burst = transmit_;
  burst.rxq.data = receive_queue_;
  burst.txq.data = transmit_queue_;
}

}  // namespace tally::bench
