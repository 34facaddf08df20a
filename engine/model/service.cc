#include "engine/model/service.h"

#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"
#include "engine/http/request_head.h"
#include "engine/snapshot/retention.h"

namespace paddle::serve {

using http::is_this_machine;
using http::media_type;
using http::refusal;

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

constexpr std::size_t kBestBytesMax = 256;

// A text that changes when a file of the snapshot is written again or added: a copy in progress is
// checked again later.
std::string mark_of(const std::string& snapshot) {
  std::string mark = snapshot;
  const auto names = snapshot::kernel_file_system().list(snapshot);
  if (!names) return mark;
  for (const std::string& name : *names) {
    struct stat info {};
    if (::stat((snapshot + "/" + name).c_str(), &info) != 0) continue;
    mark += fmt::format("\n{} {} {} {}.{}", name, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                        info.st_mtim.tv_nsec);
  }
  return mark;
}

std::string best_of(const std::string& folder) {
  auto text = read_file(folder + "/BEST", kBestBytesMax);
  if (!text) return "";
  while (text->ends_with('\n')) text->pop_back();
  return *std::move(text);
}

constexpr std::string_view kBearer = "Bearer ";
constexpr const char* kJson = "application/json";
constexpr const char* kJsonLines = "application/x-ndjson";
constexpr std::string_view kPredict = "/v1/predict";
constexpr std::size_t kShownBytes = 40;  // of a field in a message
// Larger requests gain nothing from being scored together, and delay other requests.
constexpr std::size_t kJoinedBytesMax = 64U << 10U;

bool is_json(std::string_view content_type) {
  const std::string type = media_type(content_type);
  return type == kJson || type == kJsonLines || type == "application/jsonl" ||
         type == "application/ndjson" || type.ends_with("+json");
}

// The hint for an error in a body that was not announced as JSON. If it contains JSON, the hint
// says how to announce it.
std::string hint_at_json(const std::string& hint, std::string_view body, std::string_view format) {
  const std::size_t first = std::min(body.find_first_not_of(" \t\r\n"), body.size());
  const std::string_view rest = body.substr(first);
  if (!rest.starts_with('[') && !rest.starts_with('{')) return hint;
  if (rest.starts_with('[') || format != "jsonl")
    return "JSON needs the field Content-Type: application/json (curl --json)";
  // The job's files have such lines, each with a label.
  return (hint.empty() ? "" : hint + "; ") +
         "with the field Content-Type: application/json (curl --json) a record needs no label";
}

// kData: the client must send another request. kResource: a smaller one. All other errors are the
// server's.
Reply refused(const Error& error) {
  const unsigned status = error.code == Errc::kData       ? 400
                          : error.code == Errc::kResource ? 413
                                                          : 500;
  return refusal(status, error.message, error.hint);
}

// Whether the records of both requests can be scored together.
bool are_joined(const Request& one, const Request& other) {
  return one.path == kPredict && other.path == kPredict &&
         is_json(one.content_type) == is_json(other.content_type);
}

}  // namespace

// Counts.

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
  single(text, "connections", "gauge", "Connections that are open.", connections.open);
  single(text, "refused_connections_total", "counter", "Connections beyond the limit.",
         connections.refused);
  single(text, "evicted_connections_total", "counter",
         "Connections closed to make room for others.", connections.evicted);
  single(text, "reloads_total", "counter", "Newer snapshots that were taken.", reloads);
  single(text, "failed_reloads_total", "counter", "Newer snapshots that could not be used.",
         reloads_failed);
  single(text, "snapshot_passes", "gauge", "Passes of the snapshot that is served.",
         model.info().pass);
  single(text, "snapshot_samples", "gauge", "Samples that it was trained with.",
         model.info().samples);
  return text;
}

// The served model.

Result<std::unique_ptr<NewestModel>> NewestModel::open(const std::string& directory, Choice choice,
                                                       const ModelOptions& options,
                                                       Counters& counters,
                                                       std::chrono::milliseconds period) {
  std::unique_ptr<NewestModel> newest(new NewestModel(directory, choice, options, counters));
  newest->is_snapshot_ = snapshot::kernel_file_system().exists(directory + "/MANIFEST");
  const bool exists = snapshot::kernel_file_system().exists(directory);
  if (exists) PADDLE_TRY_STATUS(newest->look());
  if (!newest->model_) {
    return Error{
        Errc::kUsage,
        directory + (exists ? " is not a snapshot and contains none" : ": there is no such folder"),
        "--snapshot names a pass-0000N folder, or the --save_dir that they are in"};
  }
  newest->follower_ = std::thread([&served = *newest, period] { served.follow(period); });
  return newest;
}

NewestModel::~NewestModel() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  stopped_.notify_all();
  if (follower_.joinable()) follower_.join();
}

Result<std::vector<std::string>> NewestModel::candidates() const {
  if (is_snapshot_) return std::vector{folder_};
  PADDLE_TRY(auto names, snapshot::snapshot_names(folder_));
  // Leaves out copies in progress, and remains of deleted snapshots.
  std::erase_if(names, [this](const std::string& name) {
    return !snapshot::kernel_file_system().exists(folder_ + "/" + name + "/MANIFEST");
  });
  std::vector<std::string> found;
  const std::string best = choice_ == Choice::kBest ? best_of(folder_) : "";
  if (std::ranges::find(names, best) != names.end()) found.push_back(folder_ + "/" + best);
  if (!names.empty() && names.back() != best) found.push_back(folder_ + "/" + names.back());
  return found;
}

Status NewestModel::look() {
  PADDLE_TRY(const auto found, candidates());
  std::vector<std::string> marks;
  std::string seen;
  for (const std::string& snapshot : found) seen += marks.emplace_back(mark_of(snapshot)) + "\n\n";
  if (found.empty() || seen == std::exchange(seen_, seen)) return {};
  Status first;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (marks[i] == served_) return first;
    auto model = Model::load(found[i], options_);
    if (!model) {
      if (first) first = std::move(model).error();
      continue;
    }
    served_ = marks[i];
    if (!first) log_warning("{}", first.error().message);
    const std::scoped_lock lock(mutex_);
    model_.swap(*model);  // the old model is freed after the lock, or with its last request
    return {};
  }
  return first;
}

void NewestModel::follow(std::chrono::milliseconds period) {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, period, [this] { return is_over_; })) {
    const auto before = model_;
    lock.unlock();
    const Status looked = look();
    if (!looked) {
      ++counters_.reloads_failed;
      log_warning("{}; still serving {}", looked.error().message, before->name());
    } else if (const auto now = get(); now != before) {
      ++counters_.reloads;
      log_info("serving {} from now on", now->name());
    }
    lock.lock();
  }
}

// Answers.

struct Service::Route {
  std::string_view path;
  std::string_view method;
  bool is_open;  // needs no token
};

const Service::Route* Service::find_route(std::string_view path) {
  static constexpr auto kRoutes = std::to_array<Route>({{kPredict, "POST", false},
                                                        {"/v1/rows", "POST", false},
                                                        {"/v1/model", "GET", false},
                                                        {"/metrics", "GET", false},
                                                        {"/healthz", "GET", true}});
  const auto* const found = std::ranges::find(kRoutes, path, &Route::path);
  return found == kRoutes.end() ? nullptr : found;
}

Service::Service(NewestModel& model, Counters& counters, ServiceOptions options)
    : model_(model), counters_(counters), options_(std::move(options)) {
  for (std::uint32_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
}

Service::~Service() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::optional<Reply> Service::refuse(const Request& head) const {
  const Route* const route = find_route(head.path);
  if (!options_.token.empty() && (route == nullptr || !route->is_open)) {
    const std::string_view given = head.authorization;
    if (!given.starts_with(kBearer) ||
        !equal_constant_time(as_bytes(given.substr(kBearer.size())), options_.token))
      return refusal(401, "the bearer token is missing or wrong", "Authorization: Bearer TOKEN");
  }
  if (options_.token.empty() && !head.host.empty() && !is_this_machine(head.host)) {
    return refusal(421, "without a token only requests for this machine are answered",
                   "use http://localhost or its address, or see --token_file");
  }
  if (route == nullptr) {
    return refusal(404, "there is no such path",
                   "paths are /v1/predict, /v1/rows, /v1/model, /healthz, /metrics");
  }
  if (!head.content_encoding.empty() && media_type(head.content_encoding) != "identity") {
    return refusal(415,
                   fmt::format("a body with the Content-Encoding {} is not supported",
                               escape_control(head.content_encoding.substr(0, kShownBytes))),
                   "send it uncompressed");
  }
  const bool has_head = route->method == "GET";
  if (head.method == route->method || (has_head && head.method == "HEAD")) return {};
  Reply reply = refusal(405, fmt::format("{} takes {}", route->path, route->method));
  reply.allow = has_head ? "GET, HEAD" : route->method;
  return reply;
}

void Service::answer(Request request, std::function<void(Reply)> done) {
  const TimePoint now = SteadyClock().now();
  const auto reply_now = [&](Reply reply) {
    counters_.count(request.path, reply.status, SteadyClock().now() - now);
    done(std::move(reply));
  };
  if (request.path == "/healthz") return reply_now({.body = "{\"status\":\"ok\"}\n"});
  if (request.path == "/v1/model") return reply_now({.body = model_.get()->description()});
  if (request.path == "/metrics") {
    return reply_now({.type = "text/plain; version=0.0.4", .body = counters_.text(*model_.get())});
  }
  {
    const std::scoped_lock lock(mutex_);
    if (queue_.size() < options_.queue_max) {
      queue_.push_back({std::move(request), std::move(done), now});
      counters_.queued = queue_.size();
      changed_.notify_one();
      return;
    }
  }
  reply_now(refusal(503, "too many requests wait", "try again later, or start more servers"));
}

void Service::work() {
  std::optional<Model::Scratch> scratch(std::in_place);
  std::vector<Waiting> taken;
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return is_over_ || !queue_.empty(); });
    --idle_;
    if (is_over_) return;
    take(taken);
    lock.unlock();
    std::vector<Reply> replies = compute(taken, *scratch);
    const TimePoint now = SteadyClock().now();
    for (std::size_t i = 0; i < taken.size(); ++i) {
      counters_.count(taken[i].request.path, replies[i].status, now - taken[i].since);
      taken[i].done(std::move(replies[i]));
    }
    taken.clear();
    if (scratch->is_large || scratch->lines.capacity() > kLargeBytes) {
      scratch.emplace();
      ::malloc_trim(0);  // also what is free between buffers in use
    }
    lock.lock();
  }
}

void Service::take(std::vector<Waiting>& taken) {
  static const bool joins = Model::joins_requests();
  const std::size_t share = joins ? (queue_.size() + idle_) / (1 + idle_) : 1;
  std::size_t bytes = 0;
  do {
    bytes += queue_.front().request.body.size();
    taken.push_back(std::move(queue_.front()));
    queue_.pop_front();
  } while (taken.size() < share && are_joined(taken.front().request, queue_.front().request) &&
           bytes + queue_.front().request.body.size() <= kJoinedBytesMax);
  counters_.queued = queue_.size();
}

std::vector<Reply> Service::compute(std::span<const Waiting> requests,
                                    Model::Scratch& scratch) const {
  if (requests.front().request.path == kPredict) return predict(requests, scratch);
  return {read_rows(requests.front().request, scratch)};
}

std::vector<Reply> Service::predict(std::span<const Waiting> requests,
                                    Model::Scratch& scratch) const {
  const auto model = model_.get();
  const bool as_json = is_json(requests.front().request.content_type);
  std::vector<std::string_view> records;
  for (const Waiting& waiting : requests) records.emplace_back(waiting.request.body);
  Work work;
  auto predictions =
      model->predict(records, as_json ? RecordFormat::kJson : RecordFormat::kText, scratch, work);
  counters_.count(work);
  counters_.count_joined(requests.size());
  std::vector<Reply> replies;
  replies.reserve(predictions.size());
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    Result<Predictions>& made = predictions[i];
    if (!made) {
      Error error = made.error();
      if (!as_json && error.code == Errc::kData)
        error.hint = hint_at_json(error.hint, records[i], model->format());
      replies.push_back(refused(error));
      continue;
    }
    const char* const type = made->is_array ? kJson : as_json ? kJsonLines : "text/csv";
    replies.push_back({.type = type, .body = std::move(made->text)});
  }
  return replies;
}

Reply Service::read_rows(const Request& request, Model::Scratch& scratch) const {
  const auto done = model_.get()->read_rows(request.body, scratch);
  if (!done) return refused(done.error());
  counters_.count(*done);
  return {.body = std::string(scratch.lines.data(), scratch.lines.size())};
}

}  // namespace paddle::serve
