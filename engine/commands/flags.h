// A program's own flag table: --key=value, --key value, --flag and --noflag, as v0.10's gflags took
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle {

class FlagSet {
 public:
  using Apply = std::function<Status(const std::string& value)>;

  // `target` must outlive parse().
  void text(std::string name, std::string help, std::string& target);
  void number(std::string name, std::string help, std::uint32_t& target, std::uint32_t min,
              std::uint32_t max);
  void number(std::string name, std::string help, std::uint64_t& target);
  void boolean(std::string name, std::string help, bool& target);
  // Each value may hold several lines, a value each: an environment variable comes once.
  void repeated(std::string name, std::string help, std::vector<std::string>& target);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // kUsage: unknown flag (with a suggestion), missing or wrong value, anything that is not a flag.
  Status parse(const std::vector<std::string>& arguments);
  // One flag from elsewhere (the environment); `origin` names it in errors.
  Status set(std::string_view name, const std::string& value, const std::string& origin);
  std::string help() const;  // a line a flag, with defaults

 private:
  struct Flag {
    std::string name, help, otherwise;
    bool is_boolean = false;
    Apply apply;
  };
  const Flag* find(std::string_view name) const;
  Error unknown(std::string_view name) const;

  std::vector<Flag> flags_;
};

}  // namespace paddle
