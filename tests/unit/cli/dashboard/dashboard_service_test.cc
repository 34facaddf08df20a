// The dashboard's paths over real connections: its address, its rules, events, logs and changes.
#include "cli/dashboard/dashboard_service.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "tests/e2e/http_client.h"
#include "tests/support/fake_live.h"
#include "tests/support/running_server.h"

namespace paddle::cli {
namespace {

using test::FakeLive;
using test::HttpClient;
using test::HttpReply;

const std::string kToken = "abcdefghijklmnopqrstuvwxyz_-0123456789ABCDE";
const std::string kHome = "/" + kToken + "/";
const std::string kPage =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; connect-src "
    "'self'\"><title>page</title>";
const std::string kOurs = "X-Paddlectl: 1\r\n";

class DashboardServiceTest : public testing::Test {
 protected:
  void start(bool allow_changes = false, std::chrono::milliseconds alive = std::chrono::hours(1)) {
    service_ = std::make_unique<DashboardService>(
        live_, DashboardOptions{kToken, kPage, allow_changes, alive});
    server_.start(dashboard_server(0), *service_);
  }
  void stop() {
    server_.stop();
    service_.reset();
  }
  void TearDown() override { stop(); }

  HttpReply ask(const std::string& method, const std::string& path, const std::string& headers = "",
                const std::string& body = "") {
    HttpClient client(server_.port());
    const auto reply = client.ask(method, path, body, headers);
    EXPECT_TRUE(reply) << method << ' ' << path;
    return reply.value_or(HttpReply{});
  }
  // The reply to a request with these bytes.
  HttpReply ask_raw(const std::string& request) {
    HttpClient client(server_.port());
    EXPECT_TRUE(client.send(request));
    return client.receive().value_or(HttpReply{});
  }
  HttpClient viewer(const std::string& path, const std::string& headers = "") {
    HttpClient one(server_.port());
    EXPECT_TRUE(one.send(test::http_request("GET", kHome + path, "", headers)));
    const auto head = one.receive();
    EXPECT_TRUE(head && head->status == 200 &&
                head->headers.at("content-type") == "text/event-stream");
    return one;
  }
  static std::string id_of(const std::string& events) {
    const std::size_t at = events.rfind("id: ");
    return at == std::string::npos ? "" : events.substr(at + 4, events.find('\n', at) - at - 4);
  }

  FakeLive live_;
  std::unique_ptr<DashboardService> service_;
  test::RunningServer server_;
};

TEST_F(DashboardServiceTest, ThePageIsAtTheToken) {
  start();
  const HttpReply page = ask("GET", kHome);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, kPage);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  const HttpReply head = ask("HEAD", kHome);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(kPage.size()));
  EXPECT_EQ(ask("GET", kHome + "?job=digits").status, 200);
}

TEST_F(DashboardServiceTest, WithoutTheTokenAllPathsHaveOneAnswer) {
  start(true);
  std::string wrong = kHome;
  wrong[5] = 'X';
  const HttpReply nothing = ask("GET", "/");
  EXPECT_EQ(nothing.status, 404);
  std::vector<std::string> paths{"/metrics",
                                 "/events",
                                 "/" + kToken,
                                 "/" + kToken + "x/",
                                 wrong,
                                 wrong + "events",
                                 "//" + kToken + "/",
                                 "/x" + kHome,
                                 "/" + kToken.substr(1) + "/",
                                 "/%61" + kToken.substr(1) + "/",
                                 kHome + "nowhere",
                                 kHome + "events/",
                                 kHome + "../",
                                 kHome + "/",
                                 "*",
                                 "/" + std::string(9000, 'a')};
  for (const std::string& path : paths) {
    for (const char* const method : {"GET", "POST", "HEAD", "DELETE"}) {
      const HttpReply reply = ask(method, path, kOurs);
      EXPECT_EQ(reply.status, 404) << method << ' ' << path;
      EXPECT_EQ(reply.body, method == std::string("HEAD") ? "" : nothing.body) << path;
      EXPECT_EQ(reply.headers, nothing.headers) << method << ' ' << path;
    }
  }
  EXPECT_TRUE(live_.asked().empty());
}

TEST_F(DashboardServiceTest, MetricsAlsoComeWithABearerToken) {
  start();
  const std::string bearer = "Authorization: Bearer " + kToken + "\r\n";
  const std::string lower = "Authorization: bearer " + kToken + "\r\n";  // RFC 9110, 11.1
  for (const HttpReply& reply : {ask("GET", kHome + "metrics"), ask("GET", "/metrics", bearer),
                                 ask("GET", "/metrics", lower)}) {
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, live_.metrics());
    EXPECT_EQ(reply.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  }
  for (const std::string& other :
       {"Bearer " + kToken + "x", "Bearer " + kToken.substr(1), "Bearer" + kToken,
        std::string("Bearer "), "Basic " + kToken, kToken})
    EXPECT_EQ(ask("GET", "/metrics", "Authorization: " + other + "\r\n").status, 404) << other;
  EXPECT_EQ(ask("GET", "/events", bearer).status, 404) << "no other path has it";
  EXPECT_EQ(ask("GET", "/", bearer).status, 404);
}

TEST_F(DashboardServiceTest, OnlyNamesOfThisMachineAreAnswered) {
  start(true);
  const auto status_at = [&](const std::string& host, const std::string& target = kHome) {
    return ask_raw(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target, host)).status;
  };
  for (const char* const host : {"localhost", "127.0.0.1:8642", "LOCALHOST:1", "[::1]:9"})
    EXPECT_EQ(status_at(host), 200) << host;
  for (const char* const host : {"evil.com", "", "127.0.0.1.evil.com", "localhost.evil.com:8642",
                                 "10.0.0.1", "0.0.0.0", "localhost@evil.com"}) {
    EXPECT_EQ(status_at(host), 421) << host;
    EXPECT_EQ(status_at(host, "/"), 421) << host;
  }
  EXPECT_EQ(status_at("localhost", "http://evil.com" + kHome), 421) << "the target counts";
  EXPECT_EQ(ask_raw("GET " + kHome + " HTTP/1.0\r\n\r\n").status, 421) << "no Host";
}

TEST_F(DashboardServiceTest, EveryAnswerHasTheHeadersThatABrowserNeeds) {
  start(true);
  live_.put("{}", "{}");
  HttpClient events(server_.port());
  ASSERT_TRUE(events.send(test::http_request("GET", kHome + "events")));
  std::vector<HttpReply> replies{ask("GET", kHome),
                                 ask("GET", "/"),
                                 ask("GET", kHome + "metrics"),
                                 ask("GET", kHome + "log?job=digits&process=trainer-0"),
                                 ask("POST", kHome + "stop?job=digits"),
                                 ask("POST", kHome + "stop?job=digits", kOurs),
                                 ask("PUT", kHome),
                                 *events.receive(),
                                 ask_raw("GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n"),
                                 ask_raw("nonsense\r\n\r\n"),
                                 ask_raw("GET / HTTP/1.1\r\n\r\n")};
  for (const HttpReply& reply : replies) {
    const auto field = [&](const char* name) {
      const auto found = reply.headers.find(name);
      return found == reply.headers.end() ? "" : found->second;
    };
    EXPECT_GE(reply.status, 200);
    EXPECT_TRUE(field("content-security-policy").starts_with("default-src 'none'; "));
    EXPECT_TRUE(field("content-security-policy").ends_with("frame-ancestors 'none'"));
    EXPECT_EQ(field("x-content-type-options"), "nosniff");
    EXPECT_EQ(field("referrer-policy"), "no-referrer");
    EXPECT_EQ(field("cache-control"), "no-store");
    EXPECT_EQ(field("cross-origin-resource-policy"), "same-origin");
    EXPECT_EQ(field("cross-origin-opener-policy"), "same-origin");
    EXPECT_EQ(field("set-cookie"), "");
    EXPECT_EQ(field("access-control-allow-origin"), "");
  }
  EXPECT_EQ(replies[0].headers.at("content-security-policy"),
            "default-src 'none'; connect-src 'self'; frame-ancestors 'none'")
      << "as the page has it";
}

TEST_F(DashboardServiceTest, AChangeNeedsEveryPermission) {
  start(true);
  const std::string stop = kHome + "stop?job=digits";
  const std::string origin = "Origin: http://localhost\r\n";  // the Host of test::http_request
  EXPECT_EQ(ask("POST", stop).status, 403) << "X-Paddlectl is missing";
  EXPECT_EQ(ask("POST", stop, "X-Paddlectl: 2\r\n").status, 403);
  for (const char* const other :
       {"null", "http://evil.com", "https://localhost", "http://localhost:1", "http://localhost/"})
    EXPECT_EQ(ask("POST", stop, fmt::format("{}Origin: {}\r\n", kOurs, other)).status, 403)
        << other;
  for (const char* const method : {"GET", "HEAD", "PUT", "OPTIONS"}) {
    const HttpReply reply = ask(method, stop, kOurs);
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_EQ(reply.headers.at("allow"), "POST");
  }
  EXPECT_EQ(ask("POST", stop, kOurs, "now").status, 413) << "it has no body";
  EXPECT_TRUE(live_.asked().empty()) << live_.asked().front();
  const HttpReply done = ask("POST", stop, kOurs + origin);
  EXPECT_EQ(done.status, 200) << done.body;
  EXPECT_EQ(done.body, "{\"done\": \"digits is stopping\"}\n");
  EXPECT_EQ(ask("POST", stop + "&now=1", kOurs).status, 200) << "curl sends no Origin";
  EXPECT_EQ(ask("POST", kHome + "restart?job=digits&process=trainer-0", kOurs).status, 200);
  EXPECT_EQ(live_.asked(), (std::vector<std::string>{"stop digits ", "stop now digits ",
                                                     "restart digits trainer-0"}));
  const HttpReply unknown = ask("POST", kHome + "stop?job=other", kOurs);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, "{\"error\":{\"message\":\"there is no job other\"}}\n");
}

// RFC 9112, 6.3: such a request has no body. `curl -X POST` sends it.
TEST_F(DashboardServiceTest, AChangeNeedsNoLength) {
  start(true);
  HttpClient one(server_.port());
  ASSERT_TRUE(
      one.send(fmt::format("POST {}stop?job=digits HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
                           "POST {}stop?job=other HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
                           kHome, kOurs, kHome, kOurs)));
  const auto reply = one.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200) << reply->body;
  EXPECT_EQ(reply->headers.at("connection"), "close");
  EXPECT_FALSE(one.receive()) << "bytes that a body might be are no request";
  EXPECT_EQ(live_.asked(), (std::vector<std::string>{"stop digits "}));
}

TEST_F(DashboardServiceTest, ErrorsHaveTheirStatus) {
  start(true);
  const auto stop = [&](const char* job) { return ask("POST", kHome + "stop?job=" + job, kOurs); };
  EXPECT_EQ(stop("other").status, 404);
  EXPECT_EQ(stop("ended").status, 409);
  const HttpReply busy = stop("busy");
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.headers.at("retry-after"), "1");
}

TEST_F(DashboardServiceTest, WithoutAllowChangesThereAreNone) {
  start(false);
  for (const char* const path : {"stop?job=digits", "restart?job=digits&process=trainer-0"}) {
    const HttpReply reply = ask("POST", kHome + path, kOurs);
    EXPECT_EQ(reply.status, 403) << path;
    EXPECT_NE(reply.body.find("--allow-changes"), std::string::npos);
    EXPECT_EQ(ask("GET", kHome + path, kOurs).status, 405);
  }
  for (const char* const path : {"", "events", "log?job=digits&process=trainer-0", "metrics"}) {
    const HttpReply reply = ask("POST", kHome + path, kOurs);
    EXPECT_EQ(reply.status, 405) << path;
    EXPECT_EQ(reply.headers.at("allow"), "GET, HEAD");
  }
  EXPECT_TRUE(live_.asked().empty());
}

TEST_F(DashboardServiceTest, HostileNamesReachNoNode) {
  start(true);
  const std::string long_name(101, 'a');
  for (const std::string& name :
       {std::string(), std::string(".."), std::string("..%2f..%2fetc"), std::string("a%2fb"),
        std::string("a/b"), std::string("-rf"), std::string("a%20b"), std::string("a+b"),
        std::string("%3Cscript%3E"), std::string("%C3%A4"), long_name}) {
    for (const std::string& path :
         {"log?process=trainer-0&job=" + name, "log?job=digits&process=" + name}) {
      const HttpReply reply = ask("GET", kHome + path);
      EXPECT_EQ(reply.status, 404) << path;
      EXPECT_EQ(reply.body.find("script"), std::string::npos) << "names are not repeated";
    }
    EXPECT_EQ(ask("POST", kHome + "stop?job=" + name, kOurs).status, 404) << name;
    EXPECT_EQ(ask("POST", kHome + "restart?job=digits&process=" + name, kOurs).status, 404) << name;
    if (name.empty()) continue;
    EXPECT_EQ(ask("GET", kHome + "events?job=" + name).status, 404) << name;
  }
  for (const char* const query : {"job=%00", "job=digits%00", "job=%", "job=%g0", "job=a&job=b",
                                  "job=%0d%0aSet-Cookie:%20a", "job=%ff", "job=%1b[2J"}) {
    for (const char* const path : {"log?process=trainer-0&", "events?", "metrics?", "?"})
      EXPECT_EQ(ask("GET", kHome + path + query).status, 400) << path << query;
    EXPECT_EQ(ask("POST", kHome + "stop?" + query, kOurs).status, 400) << query;
  }
  EXPECT_TRUE(live_.asked().empty()) << live_.asked().front();
  EXPECT_EQ(live_.looks(), 0U);
}

TEST_F(DashboardServiceTest, ALogIsReadFromAnOffset) {
  start();
  live_.set_log("epoch 1\n10%\r20%\r100%\n</script>\xff\x1b[31m\n");
  const std::string path = kHome + "log?job=digits&process=trainer-0";
  const HttpReply reply = ask("GET", path);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"offset": 7, "next": 44, "size": 1000, )"
                        R"("text": "epoch 1\n100%\n</script>\\xff\\x1b[31m\n"})"
                        "\n");
  EXPECT_EQ(ask("GET", path + "&offset=44").status, 200);
  EXPECT_EQ(ask("GET", path + "&offset=18446744073709551615").status, 200);
  EXPECT_EQ(live_.asked(),
            (std::vector<std::string>{"log digits trainer-0 end", "log digits trainer-0 44",
                                      "log digits trainer-0 18446744073709551615"}));
  for (const char* const offset : {"-1", "1x", "0x10", "18446744073709551616", "%201", "1.5"})
    EXPECT_EQ(ask("GET", path + "&offset=" + offset).status, 400) << offset;
  const HttpReply unknown = ask("GET", kHome + "log?job=digits&process=trainer-9");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body,
            "{\"error\":{\"message\":\"there is no process trainer-9\","
            "\"hint\":\"see paddlectl status\"}}\n");
}

TEST_F(DashboardServiceTest, EventsArriveAsTheStateChanges) {
  start();
  live_.put("{\"jobs\":1}", "{\"curve\":1}");
  HttpClient one = viewer("events?job=digits");
  HttpClient other = viewer("events");
  EXPECT_EQ(one.read_to("{\"curve\":1}\n\n").find("retry: "), 0U);
  const std::string of_cluster = other.read_to("{\"jobs\":1}\n\n");
  EXPECT_NE(of_cluster.find("event: cluster\ndata: {\"jobs\":1}\n\n"), std::string::npos);
  live_.put("{\"jobs\":1}", "{\"curve\":2}");
  live_.put("{\"jobs\":2}", "{\"curve\":2}");
  EXPECT_NE(one.read_to("{\"curve\":2}\n\n").find("event: job\n"), std::string::npos);
  EXPECT_EQ(other.read_to("{\"jobs\":2}\n\n").find("job\n"), std::string::npos)
      << "it shows no job";
  HttpClient gone = viewer("events?job=removed");
  EXPECT_NE(gone.read_to("\"removed\"}\n\n").find("event: gone\n"), std::string::npos);
}

TEST_F(DashboardServiceTest, AViewerThatComesBackGetsWhatItLacks) {
  start();
  live_.put("{\"jobs\":1}", "{\"curve\":1}");
  std::string id = id_of(viewer("events?job=digits").read_to("{\"curve\":1}\n\n"));
  ASSERT_TRUE(id.ends_with("-1")) << id;
  live_.put("{\"jobs\":1}", "{\"curve\":2}");
  for (const bool is_header : {true, false}) {
    HttpClient again = is_header ? viewer("events?job=digits", "Last-Event-ID: " + id + "\r\n")
                                 : viewer("events?job=digits&seen=" + id);
    const std::string events = again.read_to("{\"curve\":2}\n\n");
    EXPECT_EQ(events.find("event: cluster"), std::string::npos) << events;
    EXPECT_TRUE(id_of(events).ends_with("-2"));
  }
  // An id that is not of this dashboard, or that is none: everything.
  for (const std::string& unknown :
       {std::string("0123456789abcdef-2"), std::string("-2"), std::string("2"), std::string("abc"),
        id.substr(0, id.size() - 1) + "x"}) {
    HttpClient again = viewer("events?job=digits", "Last-Event-ID: " + unknown + "\r\n");
    EXPECT_NE(again.read_to("{\"curve\":2}\n\n").find("event: cluster"), std::string::npos)
        << unknown;
  }
  stop();
  start();
  HttpClient later = viewer("events?job=digits", "Last-Event-ID: " + id + "\r\n");
  EXPECT_NE(later.read_to("{\"curve\":2}\n\n").find("event: cluster"), std::string::npos)
      << "versions of another dashboard mean nothing";
}

TEST_F(DashboardServiceTest, AQuietStreamShowsThatItIsAlive) {
  start(false, std::chrono::milliseconds(10));
  live_.put("{}", "{}");
  HttpClient one = viewer("events");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(one.read_to(": alive\n\n").ends_with(": alive\n\n"));
  EXPECT_GE(live_.looks(), 4U) << "each says that a viewer is there";
}

TEST_F(DashboardServiceTest, ASlowViewerGetsTheNewestAndHoldsNoOther) {
  start();
  const std::string filling(1U << 20U, 'x');
  const auto state = [&](int i) { return fmt::format("{{\"text\":\"{}{}\"}}", filling, i); };
  live_.put("{}", state(0));
  HttpClient slow = viewer("events?job=digits");
  HttpClient quick = viewer("events?job=digits");
  constexpr int kStates = 60;
  for (int i = 1; i < kStates; ++i) {
    live_.put("{}", state(i));
    const std::string end = fmt::format("x{}\"}}\n\n", i);
    ASSERT_TRUE(quick.read_to(end).ends_with(end));
  }
  const std::string end = fmt::format("x{}\"}}\n\n", kStates - 1);
  const std::string all = slow.read_to(end);
  EXPECT_TRUE(all.ends_with(end));
  EXPECT_LT(all.size(), kStates * filling.size() / 2);
}

TEST_F(DashboardServiceTest, AClosedBrowserLeavesNothingBehind) {
  start();
  live_.put("{}", "{}");
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  for (int i = 0; i < 20; ++i) viewer("events?job=digits").read_to("event: job");
  const TimePoint end = SteadyClock().now() + std::chrono::seconds(60);
  while (descriptors() > before && SteadyClock().now() < end) std::this_thread::yield();
  EXPECT_EQ(descriptors(), before);
  const std::size_t looks = live_.looks();
  live_.put("{}", "{\"a\":1}");
  EXPECT_EQ(live_.looks(), looks) << "no stream is left to ask";
}

TEST_F(DashboardServiceTest, TheEndClosesStreams) {
  start();
  live_.put("{}", "{}");
  HttpClient one = viewer("events");
  stop();
  EXPECT_TRUE(one.is_closed(std::chrono::seconds(60)));
  live_.put("{}", "{\"later\":1}");  // calls nothing that is gone
}

}  // namespace
}  // namespace paddle::cli
