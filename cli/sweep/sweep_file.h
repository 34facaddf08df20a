// sweep.toml: which settings of a job are tried, and how the trials are chosen from them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/config/toml_reader.h"

namespace paddle::cli {

constexpr std::size_t kTrialsMax = 1000;  // "lr-999" is the last name
constexpr std::uint32_t kTrialsAtOnceMax = 100;

enum class SweepMethod : std::uint8_t { kGrid, kRandom, kHalving };

// A key of job.toml with the values that it may have.
class SweepParameter {
 public:
  // Reads a [[parameter]]; the table's finish() reports its mistakes.
  SweepParameter(config::TomlTable table, SweepMethod method);

  const std::string& key() const { return key_; }
  // As TOML: "0.1", "\"adam\"". Empty unless the file lists them.
  const std::vector<std::string>& values() const { return values_; }
  // The value of a trial as TOML, a pure function of the arguments. A number has six digits, or
  // more if the bounds are close.
  std::string drawn(std::uint64_t seed, std::size_t trial) const;

  // Whether drawn numbers may have a fraction.
  bool is_fractional() const { return range_ == Range::kUniform || range_ == Range::kLog; }

  // An error at the parameter's key, or at its values, with the file's line and a caret.
  Error at_key(std::string_view message, std::string_view hint = "");
  Error at_values(std::string_view message, std::string_view hint = "");

 private:
  enum class Range : std::uint8_t { kValues, kUniform, kLog, kInteger };
  void read_range(SweepMethod method);
  void read_bounds();

  config::TomlTable table_;
  std::string key_;
  Range range_ = Range::kValues;
  std::string range_key_ = "values";  // the key in the file
  std::vector<std::string> values_;
  double low_ = 0, high_ = 0;  // bounds, both possible
};

struct Sweep {
  explicit Sweep(config::TomlTable file) : table(std::move(file)) {}

  std::string name;
  SweepMethod method = SweepMethod::kGrid;
  std::size_t trials = 0;
  std::uint64_t seed = 1;
  std::uint32_t at_once = 1;
  std::string figure;            // "": [train] best of the job, or else the cost
  std::uint32_t reduction = 3;   // halving: one trial in so many goes on from a rung
  std::uint32_t passes_min = 1;  // halving: passes to the first rung
  std::vector<SweepParameter> parameters;
  config::TomlTable table;  // the file's root

  // "lr-007"; trials count from 0.
  std::string job_of(std::size_t trial) const;
  // The tag of the trials: "sweep=lr".
  std::string tag() const { return "sweep=" + name; }
  // The settings of a trial in the order of the file, as --set takes them. The last parameter of a
  // grid varies fastest.
  std::vector<std::string> settings_of(std::size_t trial) const;
  // An error at a key of the file that is not of a parameter.
  Error at(std::string_view key, std::string_view message, std::string_view hint = "");
};

// kUsage: names the file, as typed, with the line and the column of a mistake.
Result<Sweep> read_sweep(const std::string& directory, const std::string& file);
Result<Sweep> parse_sweep(std::string_view text, const std::string& file);

}  // namespace paddle::cli
