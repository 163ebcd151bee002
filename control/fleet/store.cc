#include "fleet/store.h"

#include "text/text.h"

namespace tally::fleet {

std::string objection_to(const Request& request) {
  const auto of_key = [](const std::string& key) -> std::string {
    if (key.empty()) return "a key is empty";
    if (key.size() > kMostKeyBytes)
      return "a key has " + std::to_string(key.size()) + " bytes, at most " + std::to_string(kMostKeyBytes) +
             " are allowed";
    return {};
  };
  const auto of_value = [](const std::string& key, const std::string& value) -> std::string {
    if (value.size() <= kMostValueBytes) return {};
    return "the value of " + text::cleaned(key) + " has " + std::to_string(value.size()) +
           " bytes, at most " + std::to_string(kMostValueBytes) + " are allowed";
  };
  struct Examiner {
    decltype(of_key) key;
    decltype(of_value) value;
    std::string operator()(const Read& r) const { return key(r.what.key); }
    std::string operator()(const Put& p) const {
      std::string no = key(p.key);
      return no.empty() ? value(p.key, p.value) : no;
    }
    std::string operator()(const Erase& e) const { return key(e.what.key); }
    std::string operator()(const EraseUpTo& e) const { return key(e.key); }
    std::string operator()(const Transaction& t) const {
      std::size_t bytes = 0;
      for (const auto* const steps : {&t.then, &t.otherwise}) {
        for (const Step& step : *steps) {
          if (std::string no = std::visit(*this, step); !no.empty()) return no;
          if (const auto* const put = std::get_if<Put>(&step); put != nullptr) bytes += put->value.size();
        }
      }
      if (bytes > kMostValueBytes)
        return "a transaction has " + std::to_string(bytes) + " bytes of values, at most " +
               std::to_string(kMostValueBytes) + " are allowed";
      return {};
    }
    std::string operator()(const Grant& g) const {
      return g.ttl >= kSecond && g.ttl % kSecond == 0 ? "" : "a lease is of whole seconds";
    }
    std::string operator()(const KeepAlive&) const { return {}; }
    std::string operator()(const Revoke&) const { return {}; }
  };
  return std::visit(Examiner{of_key, of_value}, request);
}

}  // namespace tally::fleet
