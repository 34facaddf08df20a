// The server's bounds on what clients make it hold, with clients of several addresses.
#include "engine/http/http_server.h"

#include <arpa/inet.h>
#include <linux/ipv6.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include "base/fd.h"
#include "tests/unit/engine/model/served_model_fixture.h"

namespace paddle::http {
namespace {

using serve::Served;

// A client of an address of this machine's loopback: it calls 127.0.0.1, or its own IPv6 address.
class Client {
 public:
  Client(std::uint16_t port, const std::string& from) {
    const bool is_v6 = from.find(':') != std::string::npos;
    constexpr int kSmall = 4096;  // so that a client that does not read holds the server up
    fd_ = UniqueFd(::socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &kSmall, sizeof kSmall);
    const auto at = [&](const std::string& address, std::uint16_t number, const auto& call) {
      sockaddr_in6 v6{};
      sockaddr_in v4{};
      v6.sin6_family = AF_INET6;
      v4.sin_family = AF_INET;
      v6.sin6_port = v4.sin_port = htons(number);
      void* const ip = is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr;
      EXPECT_EQ(::inet_pton(is_v6 ? AF_INET6 : AF_INET, address.c_str(), ip), 1);
      EXPECT_EQ(is_v6 ? call(fd_.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6)
                      : call(fd_.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4),
                0)
          << address;
    };
    at(from, 0, ::bind);
    at(is_v6 ? from : "127.0.0.1", port, ::connect);
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // All that comes up to `text`, or until the connection ends.
  std::string read_to(std::string_view text) {
    while (received_.find(text) == std::string::npos && read_some()) {
    }
    return std::exchange(received_, {});
  }
  // The status of a request, whose reply is read whole; 0 when the connection ends before.
  int ask(const std::string& request) {
    if (!send(request)) return 0;
    std::string reply = read_to("\r\n\r\n");
    const std::size_t length_at = reply.find("Content-Length: ");
    if (!reply.starts_with("HTTP/1.1 ") || length_at == std::string::npos) return 0;
    const std::size_t end = reply.find("\r\n\r\n") + 4 + std::stoul(reply.substr(length_at + 16));
    received_ = reply;
    while (received_.size() < end && read_some()) {
    }
    received_.erase(0, end);
    return std::stoi(reply.substr(9, 3));
  }
  bool is_closed() { return read_to("no such text").empty(); }
  // Whether bytes of the server, or its end of the connection, have arrived.
  bool has_news() const {
    pollfd waiting{fd_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) > 0;
  }

 private:
  bool read_some() {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 60'000) <= 0) return false;
    char buffer[16384];
    const ssize_t count = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  UniqueFd fd_;
  std::string received_;
};

const std::string kHealth = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post_head(const std::string& path, std::size_t bytes) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n",
      path, bytes);
}

// Runs `work` in a thread with a network of its own, of loopback alone, which has these IPv6
// addresses too; false where none can be made.
bool on_own_network(const std::vector<std::string>& addresses, const std::function<void()>& work) {
  bool has_network = false;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    const UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP | IFF_RUNNING;
    has_network = fd && ::ioctl(fd.get(), SIOCSIFFLAGS, &loopback) == 0;
    for (const std::string& address : addresses) {
      in6_ifreq added{};
      added.ifr6_prefixlen = 64;
      added.ifr6_ifindex = 1;
      has_network = has_network && ::inet_pton(AF_INET6, address.c_str(), &added.ifr6_addr) == 1 &&
                    ::ioctl(fd.get(), SIOCSIFADDR, &added) == 0;
    }
    if (has_network) work();
  }).join();
  return has_network;
}

constexpr auto kLong = std::chrono::hours(1);

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpOptions options) {
    listen(options);
    run();
  }
  void listen(HttpOptions options) {
    served_.start(1);
    auto server = HttpServer::listen(options, served_.service());
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  void run() {
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->stop();
    thread_.join();
  }
  Client client(const std::string& from = "127.0.0.1") { return {server_->port(), from}; }
  int predict(const std::string& from = "127.0.0.1") {
    return client(from).ask(post_head("/v1/predict", kRecord.size()) + kRecord);
  }
  // Sends the head of a prediction, which the server has read when this returns.
  void stall_in_body(Client& one) const {
    std::string head = post_head("/v1/predict", kRecord.size());
    head.insert(head.size() - 2, "Expect: 100-continue\r\n");
    ASSERT_TRUE(one.send(head));
    ASSERT_TRUE(one.read_to("\r\n\r\n").starts_with("HTTP/1.1 100 "));
  }
  static bool comes_true(const std::function<bool()>& is_true) {
    const TimePoint end = SteadyClock().now() + std::chrono::seconds(120);
    while (!is_true()) {
      if (SteadyClock().now() >= end) return false;
      ::poll(nullptr, 0, 10);
    }
    return true;
  }
  static std::string rows_request() {
    std::string ids = R"({"ids":[7)";
    for (int i = 0; i < 30'000; ++i) ids += ",7";
    ids += "]}";
    return post_head("/v1/rows", ids.size()) + ids;
  }

  const std::string kRecord = R"({"town":1,"tags":[2],"body":[1,2,3]})";
  Served served_{0};
  std::shared_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpServerTest, ABodyThatIsAnnouncedTakesNoRoom) {
  start({.held_bytes_max = 1U << 20U});
  std::vector<Client> announcing;
  for (int i = 0; i < 20; ++i) {
    announcing.push_back(client());
    ASSERT_TRUE(announcing.back().send(post_head("/v1/predict", 8'000'000) + "{"));
  }
  EXPECT_EQ(predict(), 200);
}

TEST_F(HttpServerTest, RequestsThatWereSentBeforeTheEndAreAnswered) {
  listen({});
  std::vector<Client> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(client());
    ASSERT_TRUE(waiting.back().send(kHealth));
  }
  server_->stop();  // before any of them is accepted
  run();
  for (Client& one : waiting) EXPECT_TRUE(one.read_to("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  thread_.join();
  server_.reset();
}

TEST_F(HttpServerTest, OneThatNeverAsksHoldsNoEndUp) {
  listen({.drain_time = std::chrono::hours(1)});
  Client silent = client();
  server_->stop();
  run();
  thread_.join();
  server_.reset();
  EXPECT_TRUE(silent.is_closed());
}

TEST_F(HttpServerTest, ARequestWithoutABodyHasNone) {
  start({});
  for (const char* const method : {"GET", "HEAD"}) {
    for (const char* const body :
         {"Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
      Client one = client();
      EXPECT_EQ(one.ask(fmt::format("{} /healthz HTTP/1.1\r\nHost: a\r\n{}", method, body)), 421);
      Client two = client();
      EXPECT_EQ(two.ask(fmt::format("{} /healthz HTTP/1.1\r\nHost: localhost\r\n{}", method, body)),
                400);
    }
  }
  EXPECT_EQ(client().ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"),
            200);
}

// ab -k asks with HTTP/1.0, and reads to the end of a connection whose reply does not keep it.
TEST_F(HttpServerTest, AConnectionOfHttp10StaysOnlyWhereItsReplySaysSo) {
  start({});
  const auto head_of = [](Client& one, const std::string& request) {
    EXPECT_TRUE(one.send(request));
    const std::string all = one.read_to("}\n");
    return all.substr(0, all.find("\r\n\r\n"));
  };
  for (const char* const version : {"1.0", "1.1"}) {
    const bool is_old = version == std::string("1.0");
    for (const char* const field : {"", "Connection: Keep-Alive\r\n", "Connection: keep-alive\r\n",
                                    "Connection: close\r\n"}) {
      const bool is_kept = std::string(field).empty()
                               ? !is_old
                               : std::string(field).find("close") == std::string::npos;
      for (const auto& [target, body, status] :
           {std::tuple("GET /healthz", "", "200"), std::tuple("GET /nowhere", "", "404"),
            std::tuple("POST /v1/rows", "Content-Length: 1\r\n", "400")}) {
        const std::string request =
            fmt::format("{} HTTP/{}\r\nHost: localhost\r\n{}{}\r\n{}", target, version, field, body,
                        *body == '\0' ? "" : "x");
        Client one = client();
        const std::string head = head_of(one, request);
        EXPECT_TRUE(head.starts_with(fmt::format("HTTP/1.1 {}", status))) << request << head;
        EXPECT_EQ(head.find("Connection: keep-alive") != std::string::npos, is_old && is_kept)
            << request << head;
        EXPECT_EQ(head.find("Connection: close") != std::string::npos, !is_kept) << request << head;
        if (is_kept) {
          EXPECT_EQ(head_of(one, request), head) << "the connection goes on";
        } else {
          EXPECT_TRUE(one.is_closed()) << request;
        }
      }
    }
  }
  // One connection may carry both versions.
  Client both = client();
  const std::string old = "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  EXPECT_NE(head_of(both, old).find("Connection: keep-alive"), std::string::npos);
  EXPECT_EQ(head_of(both, kHealth).find("Connection: "), std::string::npos);
}

TEST_F(HttpServerTest, APostWithoutALengthIsRefused) {
  start({});
  for (const char* const path : {"/v1/predict", "/v1/rows"}) {
    for (const char* const version : {"1.0", "1.1"}) {
      for (const char* const field : {"", "Connection: keep-alive\r\n"}) {
        Client one = client();
        ASSERT_TRUE(one.send(fmt::format("POST {} HTTP/{}\r\nHost: localhost\r\n{}\r\n{}", path,
                                         version, field, kRecord)));
        const std::string all = one.read_to("no such text");
        EXPECT_TRUE(all.starts_with("HTTP/1.1 411 ")) << all;
        EXPECT_NE(all.find("send Content-Length"), std::string::npos) << all;
        EXPECT_EQ(all.find("HTTP/1.1", 1), std::string::npos) << "the body is no request" << all;
      }
    }
  }
  EXPECT_EQ(client().ask("POST /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
  EXPECT_EQ(client().ask("POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: 0\r\n\r\n"),
            200);
}

TEST_F(HttpServerTest, TlsIsRefusedAtOnce) {
  start({.head_time = kLong, .idle_time = kLong});
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (const std::string& bytes : {hello, hello.substr(0, 1)}) {
    Client one = client();
    ASSERT_TRUE(one.send(bytes));
    const std::string all = one.read_to("no such text");
    EXPECT_TRUE(all.starts_with("HTTP/1.1 400 ")) << all;
    EXPECT_NE(all.find("this is TLS"), std::string::npos) << all;
  }
  Client later = client();
  EXPECT_EQ(later.ask(kHealth), 200);
  ASSERT_TRUE(later.send(hello));
  EXPECT_NE(later.read_to("no such text").find("this is TLS"), std::string::npos);
}

TEST_F(HttpServerTest, ACompressedBodyIsRefusedAsSuch) {
  start({});
  const auto status_of = [&](const std::string& coding) {
    return client().ask(
        fmt::format("POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {}\r\n"
                    "Content-Length: 0\r\n\r\n",
                    coding));
  };
  EXPECT_EQ(status_of("gzip"), 415);
  EXPECT_EQ(status_of("br, gzip"), 415);
  EXPECT_NE(status_of("Identity"), 415);
  EXPECT_NE(status_of(""), 415);
}

// Bytes that came, and are not all of a body.
TEST_F(HttpServerTest, AnAddressThatHoldsAllRoomGivesWay) {
  start({.held_bytes_max = 4U << 20U});
  const std::string part(1U << 20U, ' ');
  std::vector<Client> slow;
  for (int i = 0; i < 6; ++i) {
    slow.push_back(client("127.0.0.9"));
    slow.back().send(post_head("/v1/predict", 4'000'000) + part);
  }
  // Its own requests find no room once it is taken; which of them do so depends on their bytes.
  std::string large = kRecord;
  large.append(900'000, ' ');
  Client honest = client("127.0.0.2");
  EXPECT_EQ(honest.ask(post_head("/v1/predict", large.size()) + large), 200);
  EXPECT_EQ(predict("127.0.0.3"), 200);
}

TEST_F(HttpServerTest, RepliesThatAreNotReadHaveOneBound) {
  start({.held_bytes_max = 8U << 20U});
  const std::string request = rows_request();
  std::vector<Client> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(client("127.0.0.9"));
    ASSERT_TRUE(slow.back().send(request));
  }
  // Those that found no room are told so; a reply to another address has it.
  Client honest = client("127.0.0.2");
  EXPECT_EQ(honest.ask(request), 200);
  int refused = 0;
  for (Client& one : slow) {
    const std::string head = one.read_to("\r\n\r\n");
    refused += head.starts_with("HTTP/1.1 503 ") ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
}

// As on loopback, where users of a machine have one address, and behind a proxy.
TEST_F(HttpServerTest, BodiesOfTheSameAddressGiveWayOnceTheyAreSlow) {
  start({.held_bytes_max = 4U << 20U, .body_time = kLong});
  const std::string part(1U << 18U, ' ');
  std::vector<Client> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(client());
    slow.back().send(post_head("/v1/predict", 4'000'000) + part);
  }
  // Once one is refused, less room is left than the next request needs.
  ASSERT_TRUE(comes_true([&] { return std::ranges::any_of(slow, &Client::has_news); }));
  std::string large = kRecord;
  large.append(900'000, ' ');
  const auto ask = [&] { return client().ask(post_head("/v1/predict", large.size()) + large); };
  EXPECT_TRUE(comes_true([&] { return ask() == 200; }));
  EXPECT_GT(served_.counted("evicted_connections_total"), 0U);
  EXPECT_EQ(predict(), 200);
}

TEST_F(HttpServerTest, RepliesToTheSameAddressGiveWayOnceTheyAreReadSlowly) {
  start({.held_bytes_max = 8U << 20U, .reply_time = kLong});
  const std::string request = rows_request();
  std::vector<Client> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(client());
    ASSERT_TRUE(slow.back().send(request));
  }
  for (Client& one : slow) one.read_to("\r\n\r\n");
  EXPECT_TRUE(comes_true([&] { return client().ask(request) == 200; }));
  EXPECT_GT(served_.counted("evicted_connections_total"), 0U);
}

// Also where it has itself waited longest, over two seconds.
TEST_F(HttpServerTest, ASlowBodyThatFindsNoRoomIsRefused) {
  start({.held_bytes_max = 1U << 20U, .body_time = kLong});
  Client slow = client();
  ASSERT_TRUE(slow.send(post_head("/v1/predict", 4'000'000)));
  const std::string part(4000, ' ');
  for (int i = 0; i < 1000 && !slow.has_news() && slow.send(part); ++i) ::poll(nullptr, 0, 10);
  EXPECT_TRUE(slow.read_to("\r\n\r\n").starts_with("HTTP/1.1 503 "));
}

TEST_F(HttpServerTest, IdleConnectionsOfTheAddressWithMostGiveWay) {
  start({.connections_max = 4});
  std::vector<Client> idle;
  for (int i = 0; i < 8; ++i) idle.push_back(client("127.0.0.9"));
  Client other = client("127.0.0.2"), same = client("127.0.0.9");
  EXPECT_EQ(other.ask(kHealth), 200);
  EXPECT_EQ(same.ask(kHealth), 200);
  for (int i = 0; i < 8; ++i) idle.push_back(client("127.0.0.9"));
  EXPECT_EQ(client("127.0.0.3").ask(kHealth), 200);
  EXPECT_EQ(other.ask(kHealth), 200) << "an address with fewer loses none";
  EXPECT_TRUE(idle.front().is_closed());
}

// For another address also those that are sending a request, but not one that is at work.
TEST_F(HttpServerTest, SlowSendersOfTheAddressWithMostGiveWayToOthers) {
  start({.connections_max = 4});
  std::vector<Client> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(client("127.0.0.9"));
    ASSERT_TRUE(slow.back().send(i % 2 == 0 ? "GET /healthz HT" : post_head("/v1/predict", 9)));
  }
  EXPECT_EQ(client("127.0.0.2").ask(kHealth), 200);
}

TEST_F(HttpServerTest, SlowSendersOfTheSameAddressGiveWayOneByOne) {
  start({.connections_max = 4, .head_time = kLong, .body_time = kLong});
  std::vector<Client> slow;
  for (int i = 0; i < 4; ++i) slow.push_back(client());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(slow[i].send("GET /healthz HT"));
  for (int i = 2; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(stall_in_body(slow[i]));
  EXPECT_TRUE(comes_true([&] { return client().ask(kHealth) == 200; }));
  EXPECT_EQ(served_.counted("evicted_connections_total"), 1U);
  std::vector<int> statuses;
  for (int i = 0; i < 4; ++i)
    statuses.push_back(slow[i].ask(i < 2 ? "TP/1.1\r\nHost: localhost\r\n\r\n" : kRecord));
  EXPECT_EQ(std::ranges::count(statuses, 200), 3) << "the others are still served";
}

TEST_F(HttpServerTest, UnreadRepliesToTheSameAddressGiveTheirPlaces) {
  start({.connections_max = 2, .reply_time = kLong});
  const std::string request = rows_request();
  std::vector<Client> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(client());
    ASSERT_TRUE(slow.back().send(request));
    EXPECT_TRUE(slow.back().read_to("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
  EXPECT_TRUE(comes_true([&] { return client().ask(kHealth) == 200; }));
}

TEST_F(HttpServerTest, AHostWithManyIPv6AddressesIsOneClient) {
  const std::vector<std::string> addresses{"2001:db8::1", "2001:db8::2", "2001:db8::3",
                                           "2001:db8::4", "2001:db8:0:1::1"};
  const bool has_network = on_own_network(addresses, [&] {
    start({.address = "::", .connections_max = 4, .head_time = kLong, .body_time = kLong});
    std::vector<Client> slow;
    for (int i = 0; i < 4; ++i) {
      slow.push_back(client(addresses[i]));
      ASSERT_NO_FATAL_FAILURE(stall_in_body(slow.back()));
    }
    EXPECT_EQ(client(addresses[4]).ask(kHealth), 200) << "another network has fewer";
  });
  if (!has_network) GTEST_SKIP() << "no network can be made here";
}

TEST_F(HttpServerTest, AHiddenRequestIsNotAnswered) {
  start({});
  const std::string hidden = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string head =
      "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  for (const char* const coding :
       {"Transfer-Encoding: xchunked", "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity", "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 3"}) {
    Client one = client();
    ASSERT_TRUE(one.send(head + coding + "\r\n\r\n0\r\n\r\n" + hidden));
    const std::string all = one.read_to("paddle_serve_requests_total");
    EXPECT_EQ(all.find("paddle_serve_"), std::string::npos) << coding;
    EXPECT_EQ(all.find("HTTP/1.1 200"), std::string::npos) << coding << all;
    EXPECT_TRUE(all.starts_with("HTTP/1.1 400") || all.starts_with("HTTP/1.1 501")) << all;
  }
  Client old = client();
  EXPECT_EQ(old.ask("POST /v1/predict HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            400);
  // A right request goes on: a body in chunks, and a request behind it.
  Client right = client();
  EXPECT_EQ(right.ask(head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 200);
  EXPECT_EQ(right.ask(kHealth + kHealth), 200);
}

}  // namespace
}  // namespace paddle::http
