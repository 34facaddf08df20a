#include "engine/trainer/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"

namespace paddle::trainer {
namespace {

constexpr Duration kWriteDeadline = std::chrono::seconds(10);

std::string evaluation(std::string_view label, const std::vector<nn::Value>& values) {
  if (values.empty()) return "";
  std::string text = fmt::format(" {}:", label);
  for (const nn::Value& one : values) {
    text += one.undefined.empty() ? fmt::format(" {}={:.6g}", one.name, one.value)
                                  : fmt::format(" {}=undefined", one.name);
  }
  return text;
}

void add_values(JsonObject& fields, std::string_view prefix, const std::vector<nn::Value>& values) {
  for (const nn::Value& one : values) fields.add(std::string(prefix) + one.name, one.value);
}

// The names of the figures that have this property, with spaces between them.
std::string names_of(const std::vector<nn::Value>& values, bool nn::Value::*property) {
  std::string names;
  for (const nn::Value& one : values) {
    if (one.*property) names += (names.empty() ? "" : " ") + one.name;
  }
  return names;
}

void add_curves(JsonObject& fields, const std::vector<nn::Value>& values) {
  for (const nn::Value& one : values) {
    if (one.curve.points.empty()) continue;
    JsonArray numbers;
    for (const auto& [x, y] : one.curve.points) numbers.add(x).add(y);
    fields.add(fmt::format("curve:{}:{}", one.curve.kind, one.name), numbers);
  }
}

}  // namespace

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

std::string undefined_note(const Reading& reading) {
  std::string text;
  for (const nn::Value& one : reading.values) {
    if (one.undefined.empty()) continue;
    text += fmt::format("{}{} is undefined: {}", text.empty() ? "" : "; ", one.name, one.undefined);
  }
  return text;
}

std::string brief_line(std::string_view what, std::string_view kind, const Reading& reading) {
  std::string text = fmt::format("{}: {}cost {:.6g}", what, kind, reading.cost);
  for (const nn::Value& one : reading.values) {
    text += one.undefined.empty() ? fmt::format(", {} {:.5g}", one.name, one.value)
                                  : fmt::format(", {} undefined", one.name);
  }
  return text + fmt::format(" ({} samples)", reading.samples);
}

std::string totals_line(std::uint32_t pass, const Reading& totals, std::uint64_t discarded) {
  return fmt::format("Pass={} over all trainers: samples={} AvgCost={:.6g} discarded={}{}", pass,
                     totals.samples, totals.cost, discarded, evaluation("Eval", totals.values));
}

double examples_per_second(std::uint64_t samples, Duration elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

JsonObject totals_fields(const Reading& totals) {
  JsonObject fields;
  fields.add("total_samples", totals.samples).add("total_cost", totals.cost);
  add_values(fields, "total_", totals.values);
  return fields;
}

Result<MetricsFile> MetricsFile::open(const std::string& path) {
  MetricsFile metrics;
  if (path.empty()) return metrics;
  metrics.file_ = std::make_unique<File>();
  metrics.file_->path = path;
  metrics.file_->fd =
      UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (metrics.file_->fd) return metrics;
  const int reason = errno;
  Error error = system_error(Errc::kResource, "open " + path);
  // As in write(): a disk that accepts no data costs lines, but does not end the job.
  if (reason != EROFS && reason != ENOSPC && reason != EDQUOT && reason != EIO) return error;
  log_warning("{}; no metrics are written", error.message);
  metrics.file_.reset();
  return metrics;
}

void MetricsFile::write(std::string_view kind, std::uint32_t pass, std::uint64_t batch,
                        const Reading& reading, const JsonObject& more) {
  JsonObject fields;
  fields.add("pass", pass).add("batch", batch);
  fields.add("samples", reading.samples).add("cost", reading.cost);
  add_values(fields, "", reading.values);
  fields.add(more);
  if (kind == "test") add_curves(fields, reading.values);
  if (!reading.values.empty())
    fields.add("higher_is_better", names_of(reading.values, &nn::Value::higher_is_better));
  if (const std::string names = names_of(reading.values, &nn::Value::one_is_best); !names.empty())
    fields.add("one_is_best", names);
  write(kind, fields);
}

void MetricsFile::write(std::string_view kind, const JsonObject& fields) {
  if (!file_) return;
  JsonObject line;
  line.add("kind", kind).add(fields).add("unix_ms", unix_milliseconds());
  const std::lock_guard lock(file_->mutex);
  const std::string text = (file_->is_torn ? "\n" : "") + line.text() + "\n";
  const Status written =
      write_all(file_->fd.get(), as_bytes(text), std::chrono::steady_clock::now() + kWriteDeadline);
  file_->is_torn = !written;
  if (written || std::exchange(file_->has_complained, true)) return;
  log_warning("{}: {}; lines are missing in it from here on", file_->path, written.error().message);
}

}  // namespace paddle::trainer
