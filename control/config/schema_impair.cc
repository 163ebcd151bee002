#include "schemas.h"

namespace tally {
namespace {

constexpr std::uint32_t kLongestBurst = 1'000;
constexpr TimeNs kLongestDelay = 10 * kSecond;
constexpr std::uint32_t kLongestQueue = 65'536;

ValueType<std::uint32_t> burst_type() { return whole_number_in<std::uint32_t>(1, kLongestBurst); }
ValueType<TimeNs> delay_type() { return time_between(0, kLongestDelay); }
ValueType<std::uint32_t> queue_type() { return whole_number_in<std::uint32_t>(1, kLongestQueue); }

// A key of `in` or `out`: where it does not stand, `impair` itself decides, and nothing is dumped.
template <class T>
SchemaKey<ImpairWaySection> own_key(std::string name, std::optional<T> ImpairWaySection::*member,
                                    const ValueType<T>& type) {
  ValueType<std::optional<T>> optional{
      type.form,
      [read = type.read](const YamlNode& node, const std::string& path, std::optional<T>& out,
                         Reading& reading) {
        T value{};
        if (!read(node, path, value, reading)) return false;
        out = value;
        return true;
      },
      [print = type.print](const std::optional<T>& value) { return value ? print(*value) : std::string(); }};
  SchemaKey<ImpairWaySection> key = value_key(std::move(name), member, std::move(optional),
                                              "For this direction only.", "(that of `impair`)");
  key.dump = [member, dump = key.dump](const ImpairWaySection& s, const std::string& indent,
                                       std::string& out) {
    if (s.*member) dump(s, indent, out);
  };
  return key;
}

const Schema<ImpairWaySection>& way_schema() {
  static const Schema<ImpairWaySection> schema{
      own_key("loss", &ImpairWaySection::loss_ppm, percentage()),
      own_key("burst", &ImpairWaySection::burst, burst_type()),
      own_key("duplicate", &ImpairWaySection::duplicate_ppm, percentage()),
      own_key("reorder", &ImpairWaySection::reorder_ppm, percentage()),
      own_key("corrupt", &ImpairWaySection::corrupt_ppm, percentage()),
      own_key("delay", &ImpairWaySection::delay, delay_type()),
      own_key("jitter", &ImpairWaySection::jitter, delay_type()),
      own_key("queue", &ImpairWaySection::queue, queue_type()),
  };
  return schema;
}

// `in` or `out`. A section without keys is not dumped.
SchemaKey<ImpairSection> way_key(std::string name, ImpairWaySection ImpairSection::*member) {
  SchemaKey<ImpairSection> key = section_key(std::move(name), member, way_schema());
  key.dump = [member, dump = key.dump](const ImpairSection& s, const std::string& indent, std::string& out) {
    if (!(s.*member == ImpairWaySection{})) dump(s, indent, out);
  };
  return key;
}

}  // namespace

const Schema<ImpairSection>& impair_schema() {
  static const Schema<ImpairSection> schema{
      value_key(
          "loss", &ImpairSection::loss_ppm, percentage(),
          "Drop this share of the frames, each way, on purpose, to rehearse faults: docs/impairment.md. "
          "With 0% of everything frames do not come past here."),
      value_key("burst", &ImpairSection::burst, burst_type(),
                "How many frames in a row `loss` drops, on average. 1: each frame by itself."),
      value_key("duplicate", &ImpairSection::duplicate_ppm, percentage(), "Send this share twice."),
      value_key("reorder", &ImpairSection::reorder_ppm, percentage(),
                "Hold this share back until 1 to 16 later frames have come, or for 1ms."),
      value_key("corrupt", &ImpairSection::corrupt_ppm, percentage(), "Flip one random bit in this share."),
      value_key("delay", &ImpairSection::delay, delay_type(), "Let every frame leave so much later."),
      value_key(
          "jitter", &ImpairSection::jitter, delay_type(),
          "Change each frame's delay at random by up to this, more or less; frames overtake each other."),
      value_key("queue", &ImpairSection::queue, queue_type(),
                "Frames that `delay` keeps at most, for each queue of the port and direction; the others are "
                "lost. The mempools grow with it."),
      value_key("seed", &ImpairSection::seed, whole_number(0, ~std::uint64_t{0}),
                "The same seed gives the same faults to the same sequence of frames."),
      way_key("in", &ImpairSection::in),
      way_key("out", &ImpairSection::out),
  };
  return schema;
}

}  // namespace tally
