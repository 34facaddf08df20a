// Names of classes in the data: "setosa", or numbers that do not count from 0.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::data {

class ClassNames {
 public:
  ClassNames() = default;
  // Class i is called names[i].
  explicit ClassNames(const std::vector<std::string>& names);

  bool empty() const { return classes_.empty(); }
  // The class that is called so. A number is found however it is written: "1.0" and "+1" are "1".
  std::optional<std::uint64_t> find(std::string_view name) const;
  std::optional<std::uint64_t> find(double number) const;
  // As find(); kData says "<what> 'setsa' is none of the labels setosa, ..., did you mean
  // 'setosa'?".
  Status parse(std::string_view name, std::string_view what, std::uint64_t& number) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> classes_;
  std::map<double, std::uint64_t> numbers_;  // of names that are numbers
};

}  // namespace paddle::data
