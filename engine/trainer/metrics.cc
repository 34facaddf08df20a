#include "engine/trainer/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include <fmt/format.h>

namespace paddle::trainer {
namespace {

constexpr Duration kWriteDeadline = std::chrono::seconds(10);

std::int64_t unix_milliseconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

// JSON has no infinity and no NaN.
std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

std::string evaluation(std::string_view label, const std::vector<nn::Value>& values) {
  if (values.empty()) return "";
  std::string text = fmt::format(" {}:", label);
  for (const nn::Value& one : values) text += fmt::format(" {}={:.6g}", one.name, one.value);
  return text;
}

// ,"<prefix>auc":0.7
std::string fields(std::string_view prefix, const std::vector<nn::Value>& values) {
  std::string text;
  for (const nn::Value& one : values) {
    text +=
        fmt::format(",{}:{}", json_string(std::string(prefix) + one.name), json_number(one.value));
  }
  return text;
}

}  // namespace

void Score::add(const Score& other) {
  samples += other.samples;
  cost += other.cost;
  tally.add(other.tally);
}

std::string progress_line(std::uint32_t pass, std::uint64_t batch, const Reading& since_start,
                          const std::optional<Reading>& current) {
  std::string line = fmt::format("Pass={} Batch={} samples={} AvgCost={:.6g}", pass, batch,
                                 since_start.samples, since_start.cost);
  if (current) line += fmt::format(" CurrentCost={:.6g}", current->cost);
  line += evaluation("Eval", since_start.values);
  if (current) line += evaluation("CurrentEval", current->values);
  return line;
}

std::string test_line(const Reading& reading) {
  return fmt::format(" Test samples={} cost={:.6g}{}", reading.samples, reading.cost,
                     evaluation("Eval", reading.values));
}

std::string totals_line(std::uint32_t pass, const Reading& totals, std::uint64_t discarded) {
  return fmt::format("Pass={} over all trainers: samples={} AvgCost={:.6g} discarded={}{}", pass,
                     totals.samples, totals.cost, discarded, evaluation("Eval", totals.values));
}

std::string rate_fields(std::optional<double> current_cost, double examples_per_second) {
  return fmt::format(
      R"({}"examples_per_second":{})",
      current_cost ? fmt::format(R"("current_cost":{},)", json_number(*current_cost)) : "",
      json_number(examples_per_second));
}

std::string totals_fields(const Reading& totals) {
  return fmt::format(R"("total_samples":{},"total_cost":{}{})", totals.samples,
                     json_number(totals.cost), fields("total_", totals.values));
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

Result<MetricsFile> MetricsFile::open(const std::string& path) {
  MetricsFile file;
  file.fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.fd_) return system_error(Errc::kResource, "open " + path);
  return file;
}

Status MetricsFile::write(std::string_view kind, std::uint32_t pass, std::uint64_t batch,
                          const Reading& reading, const std::string& more) {
  return write_fields(kind, fmt::format(R"("pass":{},"batch":{},"samples":{},"cost":{}{}{}{})",
                                        pass, batch, reading.samples, json_number(reading.cost),
                                        fields("", reading.values), more.empty() ? "" : ",", more));
}

Status MetricsFile::write_fields(std::string_view kind, const std::string& fields) {
  if (!fd_) return {};
  const std::string line =
      fmt::format("{{\"kind\":\"{}\",{},\"unix_ms\":{}}}\n", kind, fields, unix_milliseconds());
  return write_all(fd_.get(), as_bytes(line), std::chrono::steady_clock::now() + kWriteDeadline);
}

}  // namespace paddle::trainer
