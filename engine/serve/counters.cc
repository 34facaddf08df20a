#include "engine/serve/counters.h"

#include <iterator>

#include <fmt/format.h>

namespace paddle::serve {
namespace {

constexpr const char* kPrefix = "paddle_serve_";

void head(std::string& text, const char* name, const char* type, const char* help) {
  text += fmt::format("# HELP {0}{1} {3}\n# TYPE {0}{1} {2}\n", kPrefix, name, type, help);
}

void single(std::string& text, const char* name, const char* type, const char* help,
            std::uint64_t value) {
  head(text, name, type, help);
  text += fmt::format("{}{} {}\n", kPrefix, name, value);
}

}  // namespace

void Counters::count(const std::string& path, unsigned status, Duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  const std::scoped_lock lock(mutex_);
  ++replies_[{path, status}];
  Times& times = times_[path];
  ++times.count;
  times.seconds += seconds;
  for (std::size_t i = 0; i < kBounds.size(); ++i) times.buckets[i] += seconds <= kBounds[i];
}

void Counters::count(const Work& work) {
  const std::scoped_lock lock(mutex_);
  records_ += work.records;
  rows_.add(work.rows);
}

void Counters::count_joined(std::uint64_t requests) {
  const std::scoped_lock lock(mutex_);
  ++batches_;
  batched_requests_ += requests;
}

std::string Counters::text(const Model& model) const {
  std::string text;
  const std::scoped_lock lock(mutex_);
  head(text, "requests_total", "counter", "Replies by path and HTTP status.");
  for (const auto& [key, count] : replies_) {
    text += fmt::format("{}requests_total{{path=\"{}\",code=\"{}\"}} {}\n", kPrefix, key.first,
                        key.second, count);
  }
  head(text, "request_seconds", "histogram", "From the whole request to its reply.");
  for (const auto& [path, times] : times_) {
    const auto line = [&, &path = path](std::string_view bound, std::uint64_t count) {
      text += fmt::format("{}request_seconds_bucket{{path=\"{}\",le=\"{}\"}} {}\n", kPrefix, path,
                          bound, count);
    };
    for (std::size_t i = 0; i < kBounds.size(); ++i)
      line(fmt::format("{}", kBounds[i]), times.buckets[i]);
    line("+Inf", times.count);
    text += fmt::format(
        "{0}request_seconds_sum{{path=\"{1}\"}} {2}\n"
        "{0}request_seconds_count{{path=\"{1}\"}} {3}\n",
        kPrefix, path, times.seconds, times.count);
  }
  single(text, "records_total", "counter", "Records that were scored.", records_);
  single(text, "batches_total", "counter", "Requests that were scored together count as one.",
         batches_);
  single(text, "batched_requests_total", "counter", "Requests in these batches.",
         batched_requests_);
  single(text, "rows_total", "counter", "Look-ups of rows of tables.", rows_.asked);
  single(text, "absent_rows_total", "counter", "Look-ups that found none.", rows_.absent);
  single(text, "queued_requests", "gauge", "Requests that wait for a thread.", queued);
  single(text, "connections", "gauge", "Connections that are open.", connections);
  single(text, "refused_connections_total", "counter", "Connections beyond the limit.",
         refused_connections);
  single(text, "evicted_connections_total", "counter",
         "Connections closed for those of addresses with fewer.", evicted_connections);
  single(text, "reloads_total", "counter", "Newer snapshots that were taken.", reloads);
  single(text, "failed_reloads_total", "counter", "Newer snapshots that could not be used.",
         reloads_failed);
  single(text, "snapshot_passes", "gauge", "Passes of the snapshot that is served.",
         model.info().pass);
  single(text, "snapshot_samples", "gauge", "Samples that it was trained with.",
         model.info().samples);
  return text;
}

}  // namespace paddle::serve
