#include "engine/trainer/report.h"

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

}  // namespace

void Score::add(const Score& other) {
  samples += other.samples;
  cost += other.cost;
  errors += other.errors;
}

double Score::error_rate() const {
  return samples == 0 ? 0 : static_cast<double>(errors) / static_cast<double>(samples);
}

std::string progress_line(std::uint32_t pass, std::uint64_t batch, const Score& since_start,
                          const std::optional<Score>& current) {
  std::string line = fmt::format("Pass={} Batch={} samples={} AvgCost={:.6g}", pass, batch,
                                 since_start.samples, since_start.mean_cost());
  if (current) line += fmt::format(" CurrentCost={:.6g}", current->mean_cost());
  line += fmt::format(" Eval: classification_error={:.6g}", since_start.error_rate());
  if (current)
    line += fmt::format(" CurrentEval: classification_error={:.6g}", current->error_rate());
  return line;
}

std::string test_line(const Score& score) {
  return fmt::format(
      " Test samples={} cost={:.6g} perplexity={:.6g} Eval: classification_error={:.6g}",
      score.samples, score.mean_cost(), std::exp(score.mean_cost()), score.error_rate());
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
                          const Score& score, const std::string& more) {
  if (!fd_) return {};
  const std::string line = fmt::format(
      R"({{"kind":"{}","pass":{},"batch":{},"samples":{},"cost":{},"classification_error":{}{}{},)"
      "\"unix_ms\":{}}}\n",
      kind, pass, batch, score.samples, json_number(score.mean_cost()),
      json_number(score.error_rate()), more.empty() ? "" : ",", more, unix_milliseconds());
  return write_all(fd_.get(), as_bytes(line), std::chrono::steady_clock::now() + kWriteDeadline);
}

}  // namespace paddle::trainer
