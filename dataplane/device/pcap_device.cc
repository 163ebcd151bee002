// net_pcap: frames from a file, into a file, or an interface through libpcap, for recording and replaying.

#include <array>

#include "kernel_device.h"

namespace tally {

void examine_pcap(const DeviceWords& words, std::uint32_t queues, KernelDevice& device) {
  auto& wrong = device.complaints;
  const auto need = [&](bool good, std::string_view about, std::string message, std::string help) {
    if (!good) wrong.push_back({std::string(about), std::move(message), std::move(help)});
  };
  one_queue_only("net_pcap", queues, wrong);
  std::string live;
  for (const std::string_view key : {"iface", "rx_iface", "rx_iface_in", "tx_iface"}) {
    const std::string name = words.interface(key, wrong);
    if (live.empty()) live = name;
  }
  device.interface = live;
  const int receivers =
      int{words.has("rx_pcap")} + int{words.has("rx_iface")} + int{words.has("rx_iface_in")};
  const int senders = int{words.has("tx_pcap")} + int{words.has("tx_iface")};
  need(words.has("iface") || receivers + senders > 0, "", "net_pcap has neither a file nor an interface",
       "add rx_pcap=FILE, tx_pcap=FILE or both, or iface=NAME");
  need(!words.has("iface") || receivers + senders == 0, "iface", "iface is both ways by itself",
       "remove the other files and interfaces, or iface");
  need(receivers <= 1, words.has("rx_pcap") ? "rx_pcap" : "rx_iface", "frames come from one place",
       "keep one of rx_pcap, rx_iface and rx_iface_in");
  need(senders <= 1, "tx_pcap", "frames go to one place", "keep one of tx_pcap and tx_iface");
  // What is sent on the same interface would be received again, and forwarded again.
  const std::string* const in = words.find("rx_iface");
  const std::string* const out = words.find("tx_iface");
  need(in == nullptr || out == nullptr || *in != *out, "rx_iface",
       "rx_iface also receives what tx_iface sends",
       "write iface=" + (in == nullptr ? std::string() : *in) + " for both ways");
  need(!words.has("infinite_rx") || words.has("rx_pcap"), "infinite_rx", "infinite_rx repeats a file",
       "add rx_pcap=FILE, or remove it");
  need(!words.has("phy_mac") || words.has("iface"), "phy_mac", "phy_mac is an interface's",
       "add iface=NAME, or remove it");
  static_cast<void>(words.number("infinite_rx", 0, 1, 0, wrong));
  static_cast<void>(words.number("phy_mac", 0, 1, 0, wrong));
}

}  // namespace tally
