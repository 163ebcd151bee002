#pragma once
// The tables of keys, one file each: schema_dataplane.cc, schema_box.cc, schema_port.cc, schema_impair.cc,
// schema_job.cc, schema_session.cc, schema_shared.cc, and schema_top.cc for the rest.

#include "config.h"
#include "config_schema.h"

namespace tally {

inline constexpr std::size_t kMaxInstanceBytes = 32;
inline constexpr std::size_t kMaxPortNameBytes = 32;
inline constexpr std::uint16_t kMinMtu = 576;   // RFC 791: every host takes it
inline constexpr std::uint16_t kMaxMtu = 9198;  // 9216 bytes of buffer less Ethernet header and VLAN tag

[[nodiscard]] const Schema<Config>& config_schema();
[[nodiscard]] const Schema<DataplaneSection>& dataplane_schema();
[[nodiscard]] const Schema<SharedSection>& shared_schema();
[[nodiscard]] const Schema<BoxSection>& box_schema();
[[nodiscard]] const Schema<PortSection>& port_schema();
[[nodiscard]] const Schema<ImpairSection>& impair_schema();
[[nodiscard]] const Schema<JobSection>& job_schema();
// dialect, and what a job of the dialect switchml has.
[[nodiscard]] std::vector<SchemaKey<JobSection>> session_keys();

}  // namespace tally
