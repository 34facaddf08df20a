#include "cli/report/tensorboard.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "cli/job/folders.h"
#include "cli/report/event_file.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

void add(EventFile& file, const StepOfLine& at, const std::string& tag, double value) {
  if (std::isfinite(value)) {
    file.scalar(at.line->unix_ms, static_cast<std::int64_t>(at.step), tag, value);
  }
}

// Trainer 0's totals of all trainers at the end of each pass, and its tests.
void add_job(const ProcessRecord& leader, EventFile& file) {
  constexpr std::string_view kTotal = "total_";
  for (const StepOfLine& at : steps_of(leader.metrics)) {
    const MetricsLine& line = *at.line;
    if (line.kind == "test") {
      if (line.cost) add(file, at, "held-out/cost", *line.cost);
      for (const auto& [name, value] : line.evaluators()) add(file, at, "held-out/" + name, value);
    } else if (line.kind == "pass") {
      for (const auto& [name, value] : line.numbers) {
        if (name.starts_with(kTotal)) add(file, at, "job/" + name.substr(kTotal.size()), value);
      }
    }
  }
}

void add_trainer(const ProcessRecord& trainer, EventFile& file) {
  for (const StepOfLine& at : steps_of(trainer.metrics)) {
    const MetricsLine& line = *at.line;
    if (line.kind != "train") continue;
    if (line.cost) add(file, at, "train/cost", *line.cost);
    for (const char* const name :
         {"current_cost", "examples_per_second", "examples_per_busy_second"}) {
      if (const auto value = line.number(name)) {
        add(file, at, fmt::format("train/{}", name), *value);
      }
    }
    for (const auto& [name, value] : line.evaluators()) add(file, at, "train/" + name, value);
  }
}

}  // namespace

Result<std::size_t> write_event_files(const std::string& folder, const JobRecord& record) {
  std::int64_t start = 0;
  for (const ProcessRecord& process : record.processes) {
    if (process.started_unix_ms == 0) continue;  // a damaged record
    if (start == 0 || process.started_unix_ms < start) start = process.started_unix_ms;
  }
  const std::string name = fmt::format("events.out.tfevents.{:010}.paddlectl", start / 1000);
  std::size_t scalars = 0;
  const auto write = [&](const fs::path& into, const EventFile& file) -> Status {
    if (file.scalars() == 0) return {};
    scalars += file.scalars();
    std::error_code error;
    fs::create_directories(into, error);
    if (error) {
      return Error{Errc::kResource, fmt::format("create {}: {}", into.string(), error.message()),
                   "choose another --output"};
    }
    return replace_file((into / name).string(), as_bytes(file.content()), 0644);
  };
  const fs::path base = fs::path(folder) / "tensorboard";
  for (const ProcessRecord& process : record.processes) {
    // A role becomes a folder's name, so it must be one that a job of ours can have.
    if (!process.is_trainer() || !check_job_name(process.role)) continue;
    if (process.role == "trainer-0") {
      EventFile job(start);
      add_job(process, job);
      PADDLE_TRY_STATUS(write(base, job));
    }
    EventFile own(start);
    add_trainer(process, own);
    PADDLE_TRY_STATUS(write(base / process.role, own));
  }
  return scalars;
}

}  // namespace paddle::cli
