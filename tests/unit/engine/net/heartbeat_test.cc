#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "base/text.h"
#include "engine/net/heartbeat_thread.h"
#include "engine/net/heartbeat_watch.h"
#include "tests/support/free_ports.h"

namespace paddle::heartbeat {
namespace {

constexpr NodeId kTrainer{Role::kTrainer, 1};
constexpr NodeId kPserver{Role::kPserver, 0};

TimePoint at(double seconds) {
  return TimePoint(std::chrono::hours(1)) +
         std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Ticks every quarter of a second, and gives those who died in between.
std::vector<Silence> tick(HeartbeatWatch& watch, double from, double to) {
  std::vector<Silence> dead;
  for (double time = from; time <= to; time += 0.25) {
    for (const Silence& silence : watch.on_tick(at(time))) dead.push_back(silence);
  }
  return dead;
}

TEST(HeartbeatWatchTest, APeerIsSilentAfterASecondAndDeadAfterThreeOnceASilence) {
  HeartbeatWatch watch;
  tick(watch, 0, 0);
  EXPECT_EQ(watch.on_heartbeat(at(0), {kTrainer, 4, 1}), HeartbeatNews::kAlive);
  EXPECT_TRUE(tick(watch, 0.25, 2.75).empty());
  EXPECT_TRUE(watch.silences(at(0.9)).empty());
  ASSERT_EQ(watch.silences(at(1)).size(), 1U);
  EXPECT_EQ(watch.silences(at(1))[0].peer, kTrainer);
  const auto dead = tick(watch, 3, 9);
  ASSERT_EQ(dead.size(), 1U);
  EXPECT_EQ(dead[0].peer, kTrainer);
  EXPECT_EQ(dead[0].incarnation, 4U);
  EXPECT_EQ(dead[0].lasted, std::chrono::seconds(3));
  EXPECT_EQ(watch.on_heartbeat(at(9.1), {kTrainer, 4, 2}), HeartbeatNews::kAgain);
  EXPECT_EQ(watch.on_heartbeat(at(9.1), {kTrainer, 4, 3}), HeartbeatNews::kAlive);
  EXPECT_EQ(watch.on_heartbeat(at(9.1), {kTrainer, 5, 1}), HeartbeatNews::kRestarted);
  EXPECT_TRUE(watch.silences(at(9.2)).empty());
  EXPECT_EQ(tick(watch, 9.25, 20).size(), 1U);
}

TEST(HeartbeatWatchTest, CopiesAndEarlierIncarnationsCountForNothing) {
  HeartbeatWatch watch;
  EXPECT_EQ(watch.on_heartbeat(at(0), {kTrainer, 4, 7}), HeartbeatNews::kAlive);
  EXPECT_EQ(watch.on_heartbeat(at(2), {kTrainer, 4, 7}), HeartbeatNews::kDropped);
  EXPECT_EQ(watch.on_heartbeat(at(2), {kTrainer, 4, 6}), HeartbeatNews::kDropped);
  EXPECT_EQ(watch.on_heartbeat(at(2), {kTrainer, 3, 99}), HeartbeatNews::kDropped);
  EXPECT_EQ(watch.silences(at(2)).size(), 1U);
}

TEST(HeartbeatWatchTest, NobodyIsJudgedWhoWasNeverHeardOrHasLeft) {
  HeartbeatWatch watch;
  EXPECT_TRUE(tick(watch, 0, 60).empty());
  watch.on_heartbeat(at(60), {kTrainer, 1, 1});
  watch.on_heartbeat(at(60.1), {kTrainer, 1, 2, true});
  EXPECT_TRUE(tick(watch, 60.25, 90).empty());
  EXPECT_TRUE(watch.silences(at(90)).empty());
}

TEST(HeartbeatWatchTest, AProcessThatWasStoppedItselfJudgesNobodyByThatTime) {
  HeartbeatWatch watch;
  tick(watch, 0, 0);
  watch.on_heartbeat(at(0), {kTrainer, 1, 1});
  EXPECT_TRUE(tick(watch, 10, 10).empty());
  EXPECT_EQ(tick(watch, 10.25, 13).size(), 1U) << "but by the time after it";
}

Secret secret(char fill) {
  return *Secret::from_bytes(as_bytes(std::string(kSecretBytes, fill)));
}

TEST(Datagrams, AreOfOneDirectionOneJobAndUntouched) {
  const Secret there = direction_key(secret('a'), kTrainer);
  const Secret back = direction_key(secret('a'), kPserver);
  const Datagram good = encode({kTrainer, 3, 8, true}, 77, there);
  const auto claim = read_claim(good, 77);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->from, kTrainer);
  EXPECT_EQ(claim->incarnation, 3U);
  EXPECT_EQ(claim->sequence, 8U);
  EXPECT_TRUE(claim->is_last);
  EXPECT_TRUE(is_proven(good, there));
  EXPECT_FALSE(is_proven(good, back)) << "reflected";
  EXPECT_FALSE(is_proven(good, direction_key(secret('b'), kTrainer)));
  EXPECT_FALSE(read_claim(good, 78)) << "another job";
  EXPECT_FALSE(read_claim(ByteSpan(good).first(good.size() - 1), 77));
  const auto answer = read_claim(encode({kPserver, 9, 8, false, 3}, 77, back), 77);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->incarnation, 9U);
  EXPECT_EQ(answer->answers, 3U);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Datagram bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(is_proven(bad, there)) << bit;
  }
}

TEST(Datagrams, HaveTheGoldenBytesOfTheProtocol) {
  // Computed independently (Python hmac, hashlib) from PROTOCOL.md.
  constexpr std::uint64_t kTag = 0x1122334455667788;
  const Secret pair = secret('a');
  EXPECT_EQ(
      to_hex(encode({kTrainer, 3, 8, true}, kTag, direction_key(pair, kTrainer))),
      "50444c3101080100200000003a0eac1188776655443322110100000103000000000000000000000008000000"
      "0000000000000000000000000000000084673ac2"
      "5db5daa3683142e8744e5e04c6198f26dbbc3b88f4f062247105a80c802129d6");
  EXPECT_EQ(
      to_hex(encode({kPserver, 9, 8, false, 3}, kTag, direction_key(pair, kPserver))),
      "50444c3101080000200000009c4ea75f88776655443322110000000203000000090000000000000008000000"
      "00000000000000000000000000000000c1aae9fa"
      "721ef5c41c8c41603bff884d7fb0b81d12e4d4f59d50893ec501cf430de2e184");
}

TEST(Datagrams, TheKernelPassesOnThoseOfTheJobOnly) {
  const std::uint64_t tag = 0x8899aabbccddeeff;
  for (const int family : {AF_INET, AF_INET6}) {
    const UniqueFd to(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const UniqueFd from(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage here{};
    here.ss_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) {
      reinterpret_cast<sockaddr_in6&>(here).sin6_addr = in6addr_loopback;
    } else {
      reinterpret_cast<sockaddr_in&>(here).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    auto* const at = reinterpret_cast<sockaddr*>(&here);
    if (::bind(to.get(), at, size) != 0) continue;  // no IPv6 here
    ASSERT_EQ(::getsockname(to.get(), at, &size), 0);
    drop_foreign_datagrams(to.get(), tag);
    const Datagram good = encode({kTrainer, 3, 8}, tag, secret('a'));
    const auto send = [&](ByteSpan bytes) {
      EXPECT_EQ(::sendto(from.get(), bytes.data(), bytes.size(), 0, at, size),
                static_cast<ssize_t>(bytes.size()));
    };
    for (std::size_t byte = 0; byte < sizeof tag; ++byte) {
      Datagram other = good;
      other[kJobTagAt + byte] ^= std::byte{1};
      send(other);
    }
    send(ByteSpan(good).first(good.size() - 1));
    send(Bytes(good.size() + 1, std::byte{0}));
    send(Bytes(1, std::byte{0}));
    send(encode({kTrainer, 3, 9}, tag + 1, secret('a')));
    send(good);
    Datagram got{};
    ASSERT_EQ(::recv(to.get(), got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, good);
    EXPECT_LT(::recv(to.get(), got.data(), got.size(), MSG_DONTWAIT), 0);
  }
}

class HeartbeatThreadTest : public testing::Test {
 protected:
  HeartbeatThread::Options options(NodeId self) {
    HeartbeatThread::Options result;
    result.keys = JobKeys::of_job(secret('k'));
    result.self = self;
    result.incarnation = 2;
    result.job_tag = 5;
    result.trainers = 2;
    result.on_dead = [this](const Silence& silence) {
      const std::scoped_lock lock(mutex_);
      dead_.push_back(silence.peer);
      changed_.notify_all();
    };
    return result;
  }
  std::unique_ptr<HeartbeatThread> pserver() {
    auto of_pserver = options(kPserver);
    of_pserver.bind = endpoint_;
    auto started = HeartbeatThread::start(std::move(of_pserver));
    EXPECT_TRUE(started);
    return *std::move(started);
  }
  std::unique_ptr<HeartbeatThread> trainer() {
    auto of_trainer = options(kTrainer);
    of_trainer.servers = {endpoint_};
    auto started = HeartbeatThread::start(std::move(of_trainer));
    EXPECT_TRUE(started);
    return *std::move(started);
  }
  sockaddr_in address() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(endpoint_.port);
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    return address;
  }
  bool dies(NodeId peer) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30),
                             [&] { return std::ranges::find(dead_, peer) != dead_.end(); });
  }

  const net::Endpoint endpoint_{"127.0.0.1", static_cast<std::uint16_t>(test::free_ports(1))};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<NodeId> dead_;
};

// A pserver by hand: a trainer's heartbeat thread calls it, and it answers whatever it likes.
class AnsweredHeartbeatThread : public HeartbeatThreadTest {
 protected:
  void SetUp() override {
    auto of_trainer = options(kTrainer);
    of_trainer.servers = {endpoint_};
    of_trainer.on_again = [this](NodeId) { ++back_; };
    of_trainer.on_restart = [this](NodeId) { ++new_lives_; };
    socket_ = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in at = address();
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    thread_ = *HeartbeatThread::start(std::move(of_trainer));
  }
  // Answers the next heartbeat of the trainer, and returns when the trainer has read the answers:
  // it reads them between two later heartbeats.
  void answer(const std::vector<Heartbeat>& heartbeats) {
    ASSERT_TRUE(takes_heartbeat());
    for (const Heartbeat& heartbeat : heartbeats) {
      const Datagram datagram = encode(heartbeat, 5, key_);
      ::sendto(socket_.get(), datagram.data(), datagram.size(), 0,
               reinterpret_cast<const sockaddr*>(&trainer_), sizeof trainer_);
    }
    while (takes_heartbeat(MSG_DONTWAIT)) continue;
    ASSERT_TRUE(takes_heartbeat() && takes_heartbeat());
  }

  const Secret key_ =
      direction_key(*JobKeys::of_job(secret('k')).pair(kTrainer, kPserver), kPserver);
  UniqueFd socket_;
  std::atomic<int> back_ = 0;
  std::atomic<int> new_lives_ = 0;
  std::unique_ptr<HeartbeatThread> thread_;

 private:
  bool takes_heartbeat(int flags = 0) {
    Datagram heartbeat;
    socklen_t size = sizeof trainer_;
    return ::recvfrom(socket_.get(), heartbeat.data(), heartbeat.size(), flags,
                      reinterpret_cast<sockaddr*>(&trainer_),
                      &size) == static_cast<ssize_t>(heartbeat.size());
  }

  sockaddr_in trainer_{};
};

constexpr std::uint64_t kIncarnation = 2;  // of the trainer

// Somebody who has recorded them sends them again.
TEST_F(AnsweredHeartbeatThread,
       HeartbeatsOfAnEarlierGenerationToAnEarlierIncarnationCountForNothing) {
  const Heartbeat recorded{kPserver, 6, 50, false, kIncarnation - 1};
  answer({recorded});
  answer({{kPserver, 7, 1, false, kIncarnation}});
  EXPECT_EQ(new_lives_, 0) << "the trainer has joined generation 7";
  answer({recorded,
          {kPserver, 7, 2, false, kIncarnation},
          {kPserver, 6, 51, false, kIncarnation - 1}});
  EXPECT_EQ(new_lives_, 0);
  answer({{kPserver, 8, 1, false, kIncarnation}, {kPserver, 7, 3, false, kIncarnation}});
  EXPECT_EQ(new_lives_, 1) << "it was started again";
}

TEST_F(AnsweredHeartbeatThread, AHeartbeatToAnEarlierIncarnationIsNoNewGenerationEither) {
  answer({{kPserver, 7, 1, false, kIncarnation}});
  answer({{kPserver, 8, 1, false, kIncarnation - 1}, {kPserver, 9, 1, false, kIncarnation + 1}});
  EXPECT_EQ(new_lives_, 0);
}

TEST_F(AnsweredHeartbeatThread, AnEndOfTheSilenceIsTold) {
  answer({{kPserver, 7, 1, false, kIncarnation}});
  EXPECT_TRUE(dies(kPserver));
  EXPECT_EQ(back_, 0);
  answer({{kPserver, 7, 2, false, kIncarnation}, {kPserver, 7, 3, false, kIncarnation}});
  EXPECT_EQ(back_, 1);
  EXPECT_EQ(new_lives_, 0);
}

TEST_F(AnsweredHeartbeatThread, ARecordedFarewellHidesNoDeath) {
  answer({{kPserver, 7, 1, false, kIncarnation}});
  answer({{kPserver, 7, 90, true, kIncarnation - 1}});
  EXPECT_TRUE(dies(kPserver));
}

// Strangers send whatever they like to the port, faster than it is read, for longer than a silence
// that ends a peer.
TEST_F(HeartbeatThreadTest, AFloodHidesNoHeartbeat) {
  const auto server = pserver();
  const auto client = trainer();
  std::atomic<bool> stop = false;
  std::vector<std::thread> flood;
  for (int i = 0; i < 2; ++i) {
    flood.emplace_back([&, i] {
      const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const sockaddr_in to = address();
      const Datagram foreign = encode({kTrainer, 2, 1}, 6, secret('x'));
      const Bytes junk(i == 0 ? foreign.size() : 1400, std::byte{0x5a});
      while (!stop) {
        for (const ByteSpan bytes : {ByteSpan(foreign), ByteSpan(junk)}) {
          ::sendto(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&to), sizeof to);
        }
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(3600));
  stop = true;
  for (std::thread& one : flood) one.join();
  const std::scoped_lock lock(mutex_);
  EXPECT_TRUE(dead_.empty());
}

// A trainer whose heartbeats come, then a stop of them without a farewell.
TEST_F(HeartbeatThreadTest, BothSidesNoticeThatTheOtherIsGone) {
  const Secret key =
      direction_key(*JobKeys::of_job(secret('k')).pair(kTrainer, kPserver), kTrainer);
  const auto server = pserver();
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in to = address();
  const auto send = [&](const Datagram& datagram) {
    ::sendto(socket.get(), datagram.data(), datagram.size(), 0,
             reinterpret_cast<const sockaddr*>(&to), sizeof to);
  };
  send(encode({kTrainer, 2, 1}, 5, secret('x')));  // gets no answer
  send(encode({kTrainer, 2, 2}, 5, key));
  Datagram answer;
  ASSERT_EQ(::recv(socket.get(), answer.data(), answer.size(), 0),
            static_cast<ssize_t>(answer.size()));
  const auto heartbeat = read_claim(answer, 5);
  ASSERT_TRUE(heartbeat);
  EXPECT_EQ(heartbeat->from, kPserver);
  EXPECT_EQ(heartbeat->answers, 2U);
  EXPECT_TRUE(dies(kTrainer));
  EXPECT_EQ(server->silences().size(), 1U);
}

TEST_F(HeartbeatThreadTest, ATrainerHearsThatAPserverWasStartedAgain) {
  auto of_trainer = options(kTrainer);
  of_trainer.servers = {endpoint_};
  of_trainer.on_restart = [this](NodeId peer) {
    const std::scoped_lock lock(mutex_);
    dead_.push_back(peer);
    changed_.notify_all();
  };
  of_trainer.on_dead = {};
  auto first = pserver();
  const auto client = *HeartbeatThread::start(std::move(of_trainer));
  std::this_thread::sleep_for(4 * kPeriod);
  first.reset();
  auto again = options(kPserver);
  again.bind = endpoint_;
  again.incarnation = 3;
  const auto second = HeartbeatThread::start(std::move(again));
  ASSERT_TRUE(second);
  EXPECT_TRUE(dies(kPserver));
}

TEST_F(HeartbeatThreadTest, ThoseThatLeaveAreNotDead) {
  auto server = pserver();
  {
    const auto client = trainer();
    std::this_thread::sleep_for(4 * kPeriod);
    EXPECT_TRUE(client->silences().empty());
    server.reset();
    std::this_thread::sleep_for(kSilentAfter + 2 * kPeriod);
    EXPECT_TRUE(client->silences().empty()) << "it has said so";
  }
  EXPECT_TRUE(dead_.empty());
}

TEST_F(HeartbeatThreadTest, APortThatIsTakenIsAnError) {
  const auto first = pserver();
  auto second = options(kPserver);
  second.bind = endpoint_;
  const auto started = HeartbeatThread::start(std::move(second));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kResource);
}

}  // namespace
}  // namespace paddle::heartbeat
