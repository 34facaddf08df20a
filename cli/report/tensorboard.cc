#include "cli/report/tensorboard.h"

#include <array>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "cli/job/folders.h"
#include "cli/job/results.h"
#include "proto/tensorboard.pb.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

std::uint32_t masked_crc(ByteSpan data) {
  const std::uint32_t crc = crc32c(data);
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

// TensorBoard event files: TFRecords of Event messages, each {u64 length, u32 masked CRC32C of the
// length, data, u32 masked CRC32C of the data}, little-endian. Format:
// https://www.tensorflow.org/tutorials/load_data/tfrecord ("TFRecords format details").
class EventFile {
 public:
  // Begins with the version event, at that time.
  explicit EventFile(std::int64_t unix_ms);
  void scalar(std::int64_t unix_ms, std::int64_t step, const std::string& tag, double value);

  const std::string& content() const { return content_; }
  std::size_t scalars() const { return scalars_; }

 private:
  void record(std::string_view data);

  std::string content_;
  std::size_t scalars_ = 0;
};

EventFile::EventFile(std::int64_t unix_ms) {
  wire::tensorboard::Event event;
  event.set_wall_time(static_cast<double>(unix_ms) / 1000);
  event.set_file_version("brain.Event:2");
  record(event.SerializeAsString());
}

void EventFile::scalar(std::int64_t unix_ms, std::int64_t step, const std::string& tag,
                       double value) {
  wire::tensorboard::Event event;
  event.set_wall_time(static_cast<double>(unix_ms) / 1000);
  event.set_step(step);
  wire::tensorboard::Summary::Value& one = *event.mutable_summary()->add_value();
  one.set_tag(tag);
  one.set_simple_value(static_cast<float>(value));
  record(event.SerializeAsString());
  ++scalars_;
}

void EventFile::record(std::string_view data) {
  std::array<std::byte, 8> length{};
  store_le(length.data(), std::uint64_t{data.size()});
  std::array<std::byte, 4> crc{};
  content_ += as_text(length);
  store_le(crc.data(), masked_crc(length));
  content_ += as_text(crc);
  content_ += data;
  store_le(crc.data(), masked_crc(as_bytes(data)));
  content_ += as_text(crc);
}

void add(EventFile& file, const StepOfLine& at, const std::string& tag, double value) {
  if (std::isfinite(value)) {
    file.scalar(at.line->unix_ms, static_cast<std::int64_t>(at.step), tag, value);
  }
}

// Adds trainer 0's totals over all trainers at the end of each pass, and its tests.
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
    PADDLE_TRY_STATUS(make_folder(folder, into, "choose another --output"));
    return replace_file((into / name).string(), as_bytes(file.content()), 0644);
  };
  const fs::path base = fs::path(folder) / "tensorboard";
  for (const ProcessRecord& process : record.processes) {
    // A role becomes the name of a folder, so it must be a valid name.
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
