// Replies that go on until their client leaves.
#include <sys/socket.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "engine/http/http_server.h"
#include "tests/e2e/http_client.h"
#include "tests/support/running_server.h"

namespace paddle::http {
namespace {

using test::HttpClient;
using test::HttpReply;

const std::string kGet = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";

// Every path is a stream of the parts that a test puts; a slow client gets only the newest one.
class StreamService final : public Service {
 public:
  std::optional<Reply> refuse(const Request&) const override { return {}; }
  void answer(Request request, std::function<void(Reply)> done) override {
    {
      const std::scoped_lock lock(mutex_);
      last_ = request;
    }
    Reply reply{.type = "text/event-stream", .fields = {{"X-Own", "reply"}}};
    reply.stream = std::make_shared<Parts>(*this);
    done(std::move(reply));
  }
  ConnectionCounts& connections() override { return counts_; }

  void put(const std::string& part) {
    const std::scoped_lock lock(mutex_);
    newest_ = part;
    ++version_;
    for (const auto& [stream, wake] : wakes_) wake();
    changed_.notify_all();
  }
  // Within a deadline.
  bool comes_to_streams(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [&] { return wakes_.size() == count; });
  }
  std::size_t parts_given() const { return given_; }
  Request last() {
    const std::scoped_lock lock(mutex_);
    return last_;
  }

 private:
  class Parts final : public Stream {
   public:
    explicit Parts(StreamService& owner) : owner_(owner) {}
    ~Parts() override {
      const std::scoped_lock lock(owner_.mutex_);
      owner_.wakes_.erase(this);
      owner_.changed_.notify_all();
    }
    std::string next() override {
      const std::scoped_lock lock(owner_.mutex_);
      if (seen_ == owner_.version_) return "";
      seen_ = owner_.version_;
      ++owner_.given_;
      return owner_.newest_;
    }
    void begin(std::function<void()> wake) override {
      const std::scoped_lock lock(owner_.mutex_);
      owner_.wakes_[this] = std::move(wake);
      owner_.changed_.notify_all();
    }

   private:
    StreamService& owner_;
    std::uint64_t seen_ = 0;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const Parts*, std::function<void()>> wakes_;
  std::string newest_;
  std::uint64_t version_ = 0;
  std::atomic<std::size_t> given_ = 0;
  Request last_;
  ConnectionCounts counts_;
};

class StreamTest : public testing::Test {
 protected:
  void start(HttpOptions options) {
    options.fields = {{"X-Own", "server"}, {"X-Every", "one"}};
    server_.start(options, service_);
  }
  void stop() { server_.stop(); }
  void TearDown() override { stop(); }
  HttpClient viewer() {
    HttpClient one(server_.port());
    EXPECT_TRUE(one.send(kGet));
    const auto head = one.receive();
    EXPECT_TRUE(head && head->status == 200);
    return one;
  }
  static std::size_t descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  StreamService service_;
  test::RunningServer server_;
};

TEST_F(StreamTest, PartsArriveAsTheyCome) {
  using std::chrono::milliseconds;
  // Streams outlive the limits of ordinary requests.
  start({.reply_time = milliseconds(50), .idle_time = milliseconds(50)});
  HttpClient one(server_.port());
  ASSERT_TRUE(one.send(kGet));
  const auto head = one.receive();
  ASSERT_TRUE(head);
  EXPECT_EQ(head->headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(head->headers.at("connection"), "close") << "its end is the end of the body";
  EXPECT_FALSE(head->headers.contains("content-length"));
  EXPECT_FALSE(head->headers.contains("transfer-encoding"));
  EXPECT_EQ(head->headers.at("x-own"), "reply") << "in place of the server's";
  EXPECT_EQ(head->headers.at("x-every"), "one");
  service_.put("first\n");
  EXPECT_EQ(one.read_to("first\n"), "first\n");
  EXPECT_FALSE(one.is_closed(std::chrono::seconds(1)));
  service_.put("second\n");
  EXPECT_EQ(one.read_to("second\n"), "second\n");
}

TEST_F(StreamTest, TheServiceGetsQueryAndFields) {
  start({});
  HttpClient one(server_.port());
  one.send("GET http://localhost/a?b=%20&c HTTP/1.1\r\nHost: b\r\nX-Mine: 7\r\n\r\n");
  ASSERT_TRUE(one.receive());
  const Request last = service_.last();
  EXPECT_EQ(last.path, "/a");
  EXPECT_EQ(last.query, "b=%20&c");
  EXPECT_EQ(value_of(last.fields, "x-mine"), "7");
  EXPECT_EQ(value_of(last.fields, "host"), "") << "it has a member of its own";
}

TEST_F(StreamTest, AClientThatLeavesTakesItsStreamAndDescriptorAlong) {
  start({});
  const std::size_t before = descriptors();
  {
    std::vector<HttpClient> viewers;
    for (int i = 0; i < 10; ++i) viewers.push_back(viewer());
    ASSERT_TRUE(service_.comes_to_streams(10));
    EXPECT_EQ(service_.connections().open, 10U);
  }
  EXPECT_TRUE(service_.comes_to_streams(0));
  service_.put("late\n");
  const TimePoint end = SteadyClock().now() + std::chrono::seconds(60);
  while (descriptors() > before && SteadyClock().now() < end) std::this_thread::yield();
  EXPECT_EQ(descriptors(), before);
}

TEST_F(StreamTest, ASlowClientGetsFewerAndNewerParts) {
  start({});
  HttpClient slow = viewer();
  HttpClient quick = viewer();
  ASSERT_TRUE(service_.comes_to_streams(2));
  constexpr int kParts = 200;
  const std::string filling(1U << 20U, 'x');
  for (int i = 0; i < kParts; ++i) {
    const std::string mark = fmt::format("part {} end\n", i);
    service_.put(filling + mark);
    ASSERT_TRUE(quick.read_to(mark).ends_with(mark));
  }
  // The server fills the kernel's buffers; then it waits, and skips parts.
  EXPECT_LT(service_.parts_given(), kParts + 20U);
  const std::string last = fmt::format("part {} end\n", kParts - 1);
  EXPECT_TRUE(slow.read_to(last).ends_with(last));
}

TEST_F(StreamTest, AClientThatTakesNothingIsLeft) {
  start({.reply_time = std::chrono::milliseconds(200)});
  HttpClient stuck = viewer();
  ASSERT_TRUE(service_.comes_to_streams(1));
  const std::string filling(1U << 20U, 'x');
  for (int i = 0; i < 30; ++i) service_.put(filling);
  service_.put(std::string(30U << 20U, 'y'));
  EXPECT_TRUE(service_.comes_to_streams(0));
}

TEST_F(StreamTest, ThePartsOfAllHaveOneBound) {
  start({.held_bytes_max = 4U << 20U});
  HttpClient one = viewer();
  ASSERT_TRUE(service_.comes_to_streams(1));
  service_.put(std::string(5U << 20U, 'x'));
  EXPECT_TRUE(one.is_closed(std::chrono::seconds(60)));
  EXPECT_TRUE(service_.comes_to_streams(0));
}

TEST_F(StreamTest, TheEndOfTheServerEndsThem) {
  start({.drain_time = std::chrono::hours(1)});
  HttpClient one = viewer();
  ASSERT_TRUE(service_.comes_to_streams(1));
  stop();
  EXPECT_TRUE(one.is_closed(std::chrono::seconds(60)));
  EXPECT_TRUE(service_.comes_to_streams(0));
}

TEST_F(StreamTest, HeadHasNoBody) {
  start({});
  HttpClient one(server_.port());
  const auto head = one.ask("HEAD", "/stream");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->headers.at("content-type"), "text/event-stream");
  service_.put("never\n");
  EXPECT_EQ(one.read_to("never"), "") << "the connection ends";
}

}  // namespace
}  // namespace paddle::http
