#pragma once
// Where in the file each value stands, by its path (jobs[0].window), and which values are unfit for further
// checks because something is wrong with them already.

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "diagnostic.h"

namespace tally {

class Places {
 public:
  void put(const std::string& path, Position at) { at_[path] = at; }
  void mark_broken(const std::string& path) { broken_.insert(path); }

  // The value stands in the file (else it is a default).
  [[nodiscard]] bool written(const std::string& path) const { return at_.contains(path); }
  // Of the value, or of the innermost section around it that is in the file; {1, 1} if none is.
  [[nodiscard]] Position of(std::string path) const;
  // Neither the value nor a section around it is broken.
  [[nodiscard]] bool sound(std::string path) const;

 private:
  std::unordered_map<std::string, Position> at_;
  std::unordered_set<std::string> broken_;
};

}  // namespace tally
