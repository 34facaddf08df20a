// Somebody between a trainer and its pserver, who has no key: a relay that listens, and one that
// changes a byte.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

sockaddr_in loopback(std::uint32_t last, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x7f000000U + last);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// Carries all connections to `from` on to `to`, under another address, so that no memory is shared.
class Relay {
 public:
  struct Change {
    bool to_server = false;
    std::size_t at = 0;  // bytes of that direction; 0: nothing is changed
    bool repeats =
        false;  // sends all that goes to the server a second time, on a connection beside
  };
  Relay(int from, int to, Change change)
      : to_(to), change_(change), listener_(listen_on(static_cast<std::uint16_t>(from))) {
    acceptor_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stopping_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& pump : pumps_) pump.join();
  }
  std::string seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  int copies() const { return copies_; }

 private:
  void run() {
    for (;;) {
      UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client || stopping_) return;
      UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in own = loopback(2, 0);
      const sockaddr_in target = loopback(1, to_);
      if (::bind(server.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
          ::connect(server.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0)
        continue;
      UniqueFd copy;
      if (change_.repeats) {
        copy = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(copy.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0)
          ++copies_;
      }
      pumps_.emplace_back(
          [this, client = std::move(client), server = std::move(server), copy = std::move(copy)] {
            std::thread back([&] { pump(server.get(), client.get(), false, -1); });
            pump(client.get(), server.get(), true, copy.get());
            back.join();
          });
    }
  }
  void pump(int in, int out, bool to_server, int copy) {
    std::string buffer(64U << 10U, 0);
    std::size_t total = 0;
    for (;;) {
      const ssize_t got = ::recv(in, buffer.data(), buffer.size(), 0);
      if (got <= 0) break;
      const auto size = static_cast<std::size_t>(got);
      const bool is_here = to_server == change_.to_server && change_.at > 0 &&
                           total <= change_.at && change_.at < total + size;
      if (is_here) buffer[change_.at - total] = static_cast<char>(buffer[change_.at - total] ^ 1);
      total += size;
      {
        const std::lock_guard lock(mutex_);
        seen_.append(buffer, 0, size);
      }
      // The server may have ended the copy, which then takes no more.
      if (copy >= 0) (void)::send(copy, buffer.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (::send(out, buffer.data(), size, MSG_NOSIGNAL) != got) break;
    }
    ::shutdown(out, SHUT_WR);
    ::shutdown(in, SHUT_RD);
  }

  int to_;
  Change change_;
  UniqueFd listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> copies_ = 0;
  std::mutex mutex_;
  std::string seen_;
  std::thread acceptor_;
  std::vector<std::thread> pumps_;
};

class EavesdropperTest : public testing::Test {
 protected:
  struct End {
    int code = 0;
    std::string said;
    std::string seen;  // on the wires
    int copies = 0;    // connections that were repeated
  };
  // A job of one trainer and one pserver with a relay on each of its two ports.
  End train(const std::string& name, const std::string& transport, Relay::Change change = {}) {
    const int port = free_ports(4);
    Process pserver = job_.start_pserver(name, {}, 0, port, {"--transport=" + transport});
    EXPECT_TRUE(pserver.prints("READY")) << pserver.output();
    Relay dense(port + 2, port, change);
    Relay sparse(port + 3, port + 1, {});
    Process trainer = job_.start_trainer(name, {}, 0, port + 2, {"--transport=" + transport});
    End end;
    end.code = trainer.wait().value_or(-1);
    end.said = trainer.output();
    end.seen = dense.seen() + sparse.seen();
    end.copies = dense.copies();
    return end;
  }
  // Pieces of 16 bytes, of values in a snapshot of this job, that went over the wires as they are.
  std::size_t pieces_seen(const std::string& name, const std::string& wires) {
    std::size_t found = 0;
    for (const auto& [file, bytes] : job_.snapshot(name, 0)) {
      if (!file.starts_with("_")) continue;  // parameters have the names of their layers
      for (std::size_t at = 64; at + 16 <= bytes.size(); at += 64) {
        const std::string piece = bytes.substr(at, 16);
        if (piece.find_first_not_of(piece.front()) == piece.npos) continue;
        found += wires.find(piece) != wires.npos ? 1 : 0;
      }
    }
    return found;
  }

  void SetUp() override { job_.write_ngram(1, 200); }
  Job job_;
};

TEST_F(EavesdropperTest, WhoListensSeesNoFloatOfTheModel) {
  const End clear = train("clear", "clear");
  ASSERT_EQ(clear.code, 0) << clear.said;
  EXPECT_GT(pieces_seen("clear", clear.seen), 10U) << "or this test finds nothing at all";
  const End sealed = train("sealed", "always");
  ASSERT_EQ(sealed.code, 0) << sealed.said;
  EXPECT_GT(sealed.seen.size(), clear.seen.size());
  EXPECT_EQ(pieces_seen("sealed", sealed.seen), 0U);
  EXPECT_EQ(sealed.seen.find("PDL1"), std::string::npos) << "not even a frame's header";
  EXPECT_EQ(job_.snapshot("sealed", 0), job_.snapshot("clear", 0)) << "sealing changes no bit";
}

TEST_F(EavesdropperTest, WhoChangesAByteEndsTheJobWithAnErrorThatSaysSo) {
  for (const bool to_server : {false, true}) {
    for (const std::size_t at : {2'000U, 20'000U}) {
      const End end = train(fmt::format("changed-{}-{}", to_server, at), "always", {to_server, at});
      EXPECT_EQ(end.code, static_cast<int>(Errc::kAuth)) << end.said;
      EXPECT_NE(end.said.find("received data failed authentication"), std::string::npos)
          << end.said;
    }
  }
}

// All that a trainer says is said a second time, while it says it, on connections of somebody else.
TEST_F(EavesdropperTest, WhoRepeatsAConnectionChangesNothing) {
  const End alone = train("alone", "always");
  ASSERT_EQ(alone.code, 0) << alone.said;
  for (const char* const transport : {"always", "clear"}) {
    const std::string name = std::string("repeated-") + transport;
    const End end = train(name, transport, {.repeats = true});
    EXPECT_EQ(end.code, 0) << end.said;
    EXPECT_GE(end.copies, 1);
    EXPECT_EQ(job_.snapshot(name, 0), job_.snapshot("alone", 0));
  }
}

TEST_F(EavesdropperTest, AClearPeerGetsNothingFromASealedOne) {
  const int port = free_ports(2);
  const Process pserver = job_.start_pserver("sealed", {}, 0, port, {"--transport=always"});
  ASSERT_TRUE(pserver.prints("READY")) << pserver.output();
  Process trainer =
      job_.start_trainer("sealed", {}, 0, port, {"--transport=clear", "--connect_timeout=1"});
  EXPECT_NE(trainer.wait(), 0);
  EXPECT_TRUE(pserver.prints("no sealed connection")) << pserver.output();
}

}  // namespace
}  // namespace paddle::test
