#include "cli/dashboard/dashboard_service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/secret.h"
#include "cli/console/console.h"
#include "cli/console/json.h"
#include "cli/job/folders.h"
#include "engine/http/query.h"
#include "engine/http/request_head.h"

namespace paddle::cli {
namespace {

using http::refusal;
using http::Reply;
using http::Request;

constexpr std::string_view kBearer = "bearer ";
constexpr std::uint32_t kConnectionsMax = 200;
constexpr std::chrono::milliseconds kDrainTime{2'000};  // a user waits for it after Ctrl-C
constexpr std::string_view kNoFrames = "; frame-ancestors 'none'";
constexpr const char* kRetry = "retry: 2000\n\n";  // milliseconds

// The policy in the page's <meta>, and frame-ancestors, which a <meta> cannot contain.
std::string policy_of(std::string_view page) {
  constexpr std::string_view kMeta = "http-equiv=\"Content-Security-Policy\" content=\"";
  const std::size_t at = page.find(kMeta);
  std::string_view policy = "default-src 'none'";
  if (at != std::string_view::npos) {
    policy = page.substr(at + kMeta.size());
    policy = policy.substr(0, policy.find('"'));
  }
  return std::string(policy) + std::string(kNoFrames);
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || rest != end) return std::nullopt;
  return number;
}

Reply no_such_page() {
  return refusal(404, "there is no such page", "paddlectl dashboard prints the address");
}

Reply reply_to(const Error& error) {
  const auto status = [&] {
    switch (error.code) {
      case Errc::kUsage:
        return 404U;
      case Errc::kFailed:
        return 409U;
      case Errc::kUnreachable:
        return 502U;
      case Errc::kResource:
      case Errc::kInterrupted:
        return 503U;
      default:
        return 500U;
    }
  };
  return refusal(status(), error.message, error.hint);
}

}  // namespace

http::HttpOptions dashboard_server(std::uint16_t port) {
  http::HttpOptions options{.port = port, .connections_max = kConnectionsMax, .body_bytes_max = 0};
  options.drain_time = kDrainTime;
  options.fields = {
      {"Content-Security-Policy", "default-src 'none'" + std::string(kNoFrames)},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
  };
  return options;
}

// The streams of events that are open. They share it with the service, which may end before them.
struct DashboardService::Viewers {
  std::mutex mutex;
  std::map<const Viewer*, std::function<void()>> wakes;
  std::atomic<std::uint64_t> rounds = 0;  // how often all were woken so that none pauses too long

  void wake() {
    const std::scoped_lock lock(mutex);
    for (const auto& [viewer, wake] : wakes) wake();
  }
};

// One stream of events.
class DashboardService::Viewer final : public http::Stream {
 public:
  Viewer(Live& live, std::shared_ptr<Viewers> viewers, std::string job, std::string instance,
         std::uint64_t seen)
      : live_(live),
        viewers_(std::move(viewers)),
        job_(std::move(job)),
        instance_(std::move(instance)),
        seen_(seen) {}
  ~Viewer() override {
    const std::scoped_lock lock(viewers_->mutex);
    viewers_->wakes.erase(this);
  }
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  void begin(std::function<void()> wake) override {
    const std::scoped_lock lock(viewers_->mutex);
    viewers_->wakes[this] = std::move(wake);
  }

  std::string next() override {
    std::string text = std::exchange(start_, {});
    const std::uint64_t rounds = viewers_->rounds;
    const LiveUpdate update = live_.since(job_, seen_);
    seen_ = update.version;
    for (std::size_t i = 0; i < update.events.size(); ++i) {
      const auto& [name, json] = update.events[i];
      // The last one only: a client that lacks some of the others gets all again.
      if (i + 1 == update.events.size())
        text += fmt::format("id: {}-{}\n", instance_, update.version);
      text += fmt::format("event: {}\ndata: {}\n\n", name, json);
    }
    if (text.empty() && rounds != rounds_) text = ": alive\n\n";
    rounds_ = rounds;
    return text;
  }

 private:
  Live& live_;
  const std::shared_ptr<Viewers> viewers_;
  const std::string job_, instance_;
  std::string start_ = kRetry;
  std::uint64_t seen_;
  std::uint64_t rounds_ = 0;
};

struct DashboardService::Route {
  std::string_view name;
  bool is_change;
};

DashboardService::DashboardService(Live& live, DashboardOptions options)
    : live_(live),
      options_(std::move(options)),
      policy_(policy_of(options_.page)),
      viewers_(std::make_shared<Viewers>()) {
  std::array<std::byte, 8> random{};
  PADDLE_CHECK(fill_random(random));
  for (const std::byte byte : random) instance_ += fmt::format("{:02x}", byte);
  live_.on_change([viewers = viewers_] { viewers->wake(); });
  clock_ = std::thread([this] { keep_alive(); });
}

DashboardService::~DashboardService() {
  live_.on_change({});
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  stopped_.notify_all();
  clock_.join();
}

void DashboardService::keep_alive() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, options_.alive_period, [this] { return is_over_; })) {
    ++viewers_->rounds;
    viewers_->wake();
  }
}

const DashboardService::Route* DashboardService::route_of(const Request& head) const {
  static constexpr auto kRoutes = std::to_array<Route>({{"", false},
                                                        {"events", false},
                                                        {"log", false},
                                                        {"metrics", false},
                                                        {"stop", true},
                                                        {"restart", true}});
  const std::string_view token = options_.token;
  std::string_view path = head.path, given = head.authorization;
  if (path == "/metrics" && http::lower(given.substr(0, kBearer.size())) == kBearer) {
    given.remove_prefix(kBearer.size());
    path.remove_prefix(1);
  } else {
    given = path.substr(std::min<std::size_t>(path.size(), 1), token.size());
    const std::size_t end = 1 + token.size();
    path = path.size() > end && path[end] == '/' ? path.substr(end + 1) : "/";
  }
  if (!equal_constant_time(as_bytes(given), as_bytes(token))) return nullptr;
  const auto* const found = std::ranges::find(kRoutes, path, &Route::name);
  return found == kRoutes.end() ? nullptr : found;
}

std::optional<Reply> DashboardService::refuse(const Request& head) const {
  if (!http::is_this_machine(head.host)) {
    return refusal(421, "only requests for this machine are answered",
                   "use http://127.0.0.1 or http://localhost; from another machine, ssh -L");
  }
  const Route* const route = route_of(head);
  if (route == nullptr) return no_such_page();
  const bool fits =
      route->is_change ? head.method == "POST" : head.method == "GET" || head.method == "HEAD";
  if (!fits) {
    Reply reply = refusal(405, fmt::format("{} is not a method of this path", head.method));
    reply.allow = route->is_change ? "POST" : "GET, HEAD";
    return reply;
  }
  return route->is_change ? refuse_change(head) : std::nullopt;
}

std::optional<Reply> DashboardService::refuse_change(const Request& head) const {
  if (!options_.allow_changes) {
    return refusal(403, "this dashboard changes nothing",
                   "start it with paddlectl dashboard --allow-changes");
  }
  // A browser lets no foreign page send the second one without asking, and sends the first.
  const std::string_view origin = http::value_of(head.fields, "origin");
  if (!origin.empty() && origin != "http://" + head.host)
    return refusal(403, "the request comes from a page of another origin");
  if (http::value_of(head.fields, "x-paddlectl") != "1")
    return refusal(403, "the header field X-Paddlectl is missing", "X-Paddlectl: 1");
  return std::nullopt;
}

void DashboardService::answer(Request request, std::function<void(Reply)> done) {
  const std::string_view name = route_of(request)->name;
  const auto values = http::query_values(request.query);
  if (!values) return done(refusal(400, "the query of the address is malformed"));
  const std::string job(http::value_of(*values, "job"));
  if (name.empty()) {
    Reply page{.type = "text/html; charset=utf-8", .body = options_.page};
    page.fields = {{"Content-Security-Policy", policy_}};
    return done(std::move(page));
  }
  if (name == "metrics")
    return done({.type = "text/plain; version=0.0.4; charset=utf-8", .body = live_.metrics()});
  const bool is_cluster = name == "events" && job.empty();
  if (!is_cluster && !check_job_name(job)) return done(refusal(404, "there is no such job"));
  if (name == "events") return done(events(request, job, http::value_of(*values, "seen")));
  if (name == "log") return log(*values, job, std::move(done));
  const std::string process(http::value_of(*values, "process"));
  if (name == "restart" && !check_job_name(process))
    return done(refusal(404, "there is no such process"));
  const bool is_now = http::value_of(*values, "now") == "1";
  const Change change = name == "restart" ? Change::kRestart
                        : is_now          ? Change::kStopNow
                                          : Change::kStop;
  live_.change(job, name == "restart" ? process : "", change,
               [done = std::move(done)](const Result<std::string>& changed) {
                 if (!changed) return done(reply_to(changed.error()));
                 done({.body = Json::object({{"done", *changed}}).text() + "\n"});
               });
}

Reply DashboardService::events(const Request& request, const std::string& job,
                               std::string_view seen) const {
  if (const std::string_view last = http::value_of(request.fields, "last-event-id"); !last.empty())
    seen = last;
  std::uint64_t version = 0;
  if (seen.starts_with(instance_ + "-"))
    version = number_of<std::uint64_t>(seen.substr(instance_.size() + 1)).value_or(0);
  Reply reply{.type = "text/event-stream"};
  reply.stream = std::make_shared<Viewer>(live_, viewers_, job, instance_, version);
  return reply;
}

void DashboardService::log(const http::Fields& values, const std::string& job,
                           std::function<void(Reply)> done) const {
  const std::string process(http::value_of(values, "process"));
  if (!check_job_name(process)) return done(refusal(404, "there is no such process"));
  std::optional<std::uint64_t> offset;
  if (const std::string_view text = http::value_of(values, "offset"); !text.empty()) {
    offset = number_of<std::uint64_t>(text);
    if (!offset) return done(refusal(400, "the offset is not a number of bytes"));
  }
  live_.log(job, process, offset, [done = std::move(done)](const Result<LogPart>& part) {
    if (!part) return done(reply_to(part.error()));
    done({.body = Json::object({{"offset", part->offset},
                                {"next", part->next},
                                {"size", part->size},
                                {"text", overwritten(part->text)}})
                      .text() +
                  "\n"});
  });
}

}  // namespace paddle::cli
