#include "burst_detour.h"

#include <rte_ethdev.h>

namespace tally::bench {

BurstDetour::BurstDetour(std::uint16_t ethdev, Burst on_receive, Burst on_transmit, void* to)
    : ethdev_(ethdev),
      receive_behind_(rte_eth_fp_ops[ethdev].rx_pkt_burst),
      transmit_behind_(rte_eth_fp_ops[ethdev].tx_pkt_burst),
      receive_queues_(rte_eth_fp_ops[ethdev].rxq.data),
      transmit_queues_(rte_eth_fp_ops[ethdev].txq.data),
      queues_{to} {
  auto& burst = rte_eth_fp_ops[ethdev];
  burst.rx_pkt_burst = on_receive;
  burst.tx_pkt_burst = on_transmit;
  burst.rxq.data = queues_.data();
  burst.txq.data = queues_.data();
}

BurstDetour::~BurstDetour() {
  auto& burst = rte_eth_fp_ops[ethdev_];
  burst.rx_pkt_burst = receive_behind_;
  burst.tx_pkt_burst = transmit_behind_;
  burst.rxq.data = receive_queues_;
  burst.txq.data = transmit_queues_;
}

}  // namespace tally::bench
