// The server's bounds on what clients make it hold, with clients of several addresses.
#include "engine/serve/http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/unit/engine/serve/served_model.h"

namespace paddle::serve {
namespace {

// A client of an address of this machine's loopback.
class Client {
 public:
  Client(std::uint16_t port, const std::string& from)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = [](const std::string& of, std::uint16_t at) {
      sockaddr_in made{};
      made.sin_family = AF_INET;
      made.sin_port = htons(at);
      EXPECT_EQ(::inet_pton(AF_INET, of.c_str(), &made.sin_addr), 1);
      return made;
    };
    constexpr int kSmall = 4096;  // so that a client that does not read holds the server up
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &kSmall, sizeof kSmall);
    const sockaddr_in own = address(from, 0), server = address("127.0.0.1", port);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&server), sizeof server), 0);
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
  std::string ids = R"({"ids":[7)";
  for (int i = 0; i < 30'000; ++i) ids += ",7";
  ids += "]}";
  std::vector<Client> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(client("127.0.0.9"));
    ASSERT_TRUE(slow.back().send(post_head("/v1/rows", ids.size()) + ids));
  }
  // Those that found no room are told so; a reply to another address has it.
  Client honest = client("127.0.0.2");
  EXPECT_EQ(honest.ask(post_head("/v1/rows", ids.size()) + ids), 200);
  int refused = 0;
  for (Client& one : slow) {
    const std::string head = one.read_to("\r\n\r\n");
    refused += head.starts_with("HTTP/1.1 503 ") ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
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
}  // namespace paddle::serve
