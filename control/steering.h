#pragma once
// Which core a frame arrives at. Owner: the control thread, before the cores start.

#include <span>

#include "config.h"
#include "data_plane.h"
#include "log.h"

namespace tally {

// Asks the driver of each port with several receive queues to bring the frames of a shard to the queue of the
// core that owns it (with fewer queues than shards, shards share them), with a VLAN tag and without; without
// it only, if the card has no room or no eye for tags. Where the driver refuses, frames come to queue 0 or as
// the card likes, and cores hand them over: slower, and as right. One line in the log for each such port says
// which; a refusal is a warning for a network card, where it costs.
void steer_ports(const Config& config, std::span<const BoxPort> ports, const LogSink& log);

}  // namespace tally
