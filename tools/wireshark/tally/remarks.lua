-- Expert infos. Errors are what a receiver must drop; warnings end a job or a join; notes are normal under loss.

local remarks = {}
local group, severity = expert.group, expert.severity

remarks.list = {
  check = ProtoExpert.new("tally.check.bad", "check is not the CRC32C of the header", group.CHECKSUM, severity.ERROR),
  payload = ProtoExpert.new("tally.payload.bad", "sum1 is not the CRC32C of the payload", group.CHECKSUM,
                            severity.ERROR),
  sum = ProtoExpert.new("tally.sum.bad", "sum1 or sum2 do not fit the values", group.CHECKSUM, severity.ERROR),
  length = ProtoExpert.new("tally.length.bad", "Lengths do not fit", group.MALFORMED, severity.ERROR),
  version = ProtoExpert.new("tally.version.unknown", "Unknown version", group.PROTOCOL, severity.ERROR),
  type = ProtoExpert.new("tally.type.unknown", "Unknown type", group.PROTOCOL, severity.ERROR),
  flags = ProtoExpert.new("tally.flags.unknown", "Unknown flags", group.PROTOCOL, severity.ERROR),
  elements = ProtoExpert.new("tally.elements.bad", "elements must be a multiple of 16, at most 2224 (int16: twice that)", group.PROTOCOL,
                             severity.ERROR),
  value = ProtoExpert.new("tally.unknown", "Value without a meaning", group.PROTOCOL, severity.ERROR),
  truncated = ProtoExpert.new("tally.truncated", "The capture has only a part of this packet", group.COMMENTS_GROUP,
                              severity.NOTE),
  again = ProtoExpert.new("tally.repeated", "Sent before", group.SEQUENCE, severity.NOTE),
  reject = ProtoExpert.new("tally.rejected", "REJECT", group.RESPONSE_CODE, severity.NOTE),
  overflow = ProtoExpert.new("tally.overflow", "The sum may have left int32", group.PROTOCOL, severity.NOTE),
  incomplete = ProtoExpert.new("tally.incomplete", "Some ranks are not in this sum", group.PROTOCOL, severity.NOTE),
  refused = ProtoExpert.new("tally.refused", "JOIN refused", group.RESPONSE_CODE, severity.WARN),
  abort = ProtoExpert.new("tally.aborted", "The job is aborted", group.RESPONSE_CODE, severity.WARN),
}

-- Adds one of the list to an item.
function remarks.add(item, name, text, ...)
  if text then
    item:add_proto_expert_info(remarks.list[name], string.format(text, ...))
  else
    item:add_proto_expert_info(remarks.list[name])
  end
end

return remarks
