// The flags of a command, parsed by CLI11: --key=value, --key value, --flag and --noflag, as in
// v0.10's gflags.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace paddle::commands {

// Targets must outlive parsing. The value of a target when it is declared is the default that
// help() shows. If a flag is repeated, its last value counts.
class FlagSet {
 public:
  FlagSet();
  ~FlagSet();

  void text(const std::string& name, const std::string& help, std::string& target);
  // A value without a flag before it; only help() shows `name`.
  void positional(const std::string& name, const std::string& help, std::string& target);
  // All values without a flag before them.
  void positionals(const std::string& name, const std::string& help,
                   std::vector<std::string>& target);
  void number(const std::string& name, const std::string& help, std::uint32_t& target,
              std::uint32_t min, std::uint32_t max);
  void number(const std::string& name, const std::string& help, std::uint64_t& target);
  void boolean(const std::string& name, const std::string& help, bool& target);
  // The target does not change if the flag is not given.
  void boolean(const std::string& name, const std::string& help, std::optional<bool>& target);
  // A list of values between commas; empty values are left out.
  void list(const std::string& name, const std::string& help, std::vector<std::string>& target);
  // Appends each value. An environment variable can be set only once: each of its lines is a value.
  void repeated(const std::string& name, const std::string& help, std::vector<std::string>& target);

  // kUsage: an unknown flag (with a suggestion), a missing or wrong value, or no flag at all.
  Status parse(const std::vector<std::string>& arguments);
  // Sets flags from PADDLE_INIT_<FLAG>=value entries, as v0.10's paddle.init() did. Variables
  // without a flag here belong to another command.
  Status parse_environment(const char* const* environment);
  // Each flag, what it does and its default, in lines of `width` columns.
  std::string help(std::size_t width) const;

 private:
  using Apply = std::function<Status(const std::string& value)>;
  void add(const std::string& name, const std::string& help, const std::string& otherwise,
           const Apply& apply);

  std::unique_ptr<CLI::App> app_;
  std::set<std::string> repeated_;  // names that repeated() declared
  std::vector<std::string>* positionals_ = nullptr;
  std::string positionals_name_, positionals_help_;
};

}  // namespace paddle::commands
