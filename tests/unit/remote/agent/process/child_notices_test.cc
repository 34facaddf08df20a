// Notices of a process, well-formed and not, as the supervisor keeps them.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include <gtest/gtest.h>

#include "proto/supervision.pb.h"
#include "remote/agent/process/child.h"
#include "remote/agent/process/record.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

std::string encoded(const wire::Notice& notice) {
  const std::string body = notice.SerializeAsString();
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + body;
}
std::string encoded(wire::Phase phase) {
  wire::Notice notice;
  notice.set_phase(phase);
  return encoded(notice);
}
std::string report(std::uint32_t pass, std::uint64_t batch, std::uint64_t updates = 0) {
  wire::Notice notice;
  notice.mutable_progress()->set_pass(pass);
  notice.mutable_progress()->set_batch(batch);
  notice.mutable_progress()->set_updates(updates);
  return encoded(notice);
}

class NoticesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto root = open_root(folder_.path());
    ASSERT_TRUE(root) << root.error().message;
    root_.emplace(*std::move(root));
    auto process = process_folder("j", "pserver-0");
    ASSERT_TRUE(process);
    process_.emplace(*std::move(process));
    ASSERT_TRUE(process_->make_directories(root_->fd.get()));
    ASSERT_TRUE(write_record(*root_, *process_, "spec", spec()));
    ASSERT_TRUE(write_record(*root_, *process_, "pid", wire::agent::PidRecord()));
    reopen();
  }
  void reopen() {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    notices_.open(UniqueFd(ends[0]));
    pipe_ = UniqueFd(ends[1]);
  }
  static wire::agent::ProcessSpec spec() {
    wire::agent::ProcessSpec spec;
    spec.set_job("j");
    spec.set_name("pserver-0");
    return spec;
  }
  void send(const std::string& bytes) {
    ASSERT_EQ(::write(pipe_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    notices_.receive(*root_, *process_, watch_);
  }
  std::optional<wire::Phase> phase() const {
    const auto record = read_record(*root_, "j", "pserver-0");
    if (!record || !record->notice) return std::nullopt;
    return record->notice->phase();
  }

  test::TemporaryFolder folder_;
  PulseWatch watch_{std::chrono::seconds(60)};
  std::optional<Root> root_;
  std::optional<SafePath> process_;
  Notices notices_;
  UniqueFd pipe_;
};

}  // namespace

TEST_F(NoticesTest, KeepsTheLatest) {
  EXPECT_EQ(phase(), std::nullopt);
  send(encoded(wire::PHASE_READY) + encoded(wire::PHASE_STOPPING));
  EXPECT_EQ(phase(), wire::PHASE_STOPPING);
}

TEST_F(NoticesTest, EachIsASignOfLifeWithTheTimeOfTheSupervisor) {
  wire::Notice notice;
  notice.set_received_steady_ms(7);
  const std::int64_t before = steady_ms();
  send(encoded(notice));
  const auto record = read_record(*root_, "j", "pserver-0");
  ASSERT_TRUE(record && record->notice);
  EXPECT_GE(record->notice->received_steady_ms(), before);
  EXPECT_EQ(record->notice->reported_steady_ms(), 0) << "it has reported nothing yet";
}

TEST_F(NoticesTest, AReportIsAsOldAsTheFirstNoticeWithItWhateverTheProcessTakesTheTimeFor) {
  const auto reported = [&](std::int64_t unix_ms) {
    wire::Notice notice;
    notice.mutable_progress()->set_unix_ms(unix_ms);
    ::usleep(2000);
    send(encoded(notice));
    return read_record(*root_, "j", "pserver-0")->notice->reported_steady_ms();
  };
  const std::int64_t first = reported(5'000'000);
  EXPECT_GT(first, 0);
  EXPECT_EQ(reported(5'000'000), first) << "a pulse repeats the report";
  const std::int64_t second = reported(1'400'000);
  EXPECT_GT(second, first) << "the clock was set back an hour";
  EXPECT_EQ(reported(1'400'000), second);
}

TEST_F(NoticesTest, ProgressIsABatchAPassOrAnUpdateMoreThanInTheFirstReport) {
  send(encoded(wire::PHASE_READY));
  EXPECT_EQ(notices_.has_progressed(), std::nullopt) << "it has not reported";
  for (const std::string& more : {report(2, 8), report(3, 7), report(2, 7, 1)}) {
    reopen();
    EXPECT_EQ(notices_.has_progressed(), std::nullopt) << "the previous run is over";
    send(report(2, 7));
    send(report(2, 7));
    EXPECT_EQ(notices_.has_progressed(), false) << "it only waits";
    send(more);
    EXPECT_EQ(notices_.has_progressed(), true);
    send(report(2, 7));
    EXPECT_EQ(notices_.has_progressed(), true);
  }
}

TEST_F(NoticesTest, PulsesAreShownToTheWatch) {
  send(encoded(wire::PHASE_READY));
  const TimePoint now = std::chrono::steady_clock::now();
  EXPECT_TRUE(watch_.hangs(now)) << "it has sent no pulse";
  wire::Notice notice;
  notice.mutable_pulse()->set_steps(1);
  send(encoded(notice));
  EXPECT_FALSE(watch_.hangs(now));
}

TEST_F(NoticesTest, WaitsForTheRestOfOne) {
  const std::string bytes = encoded(wire::PHASE_READY);
  send(bytes.substr(0, 5));
  EXPECT_EQ(phase(), std::nullopt);
  send(bytes.substr(5));
  EXPECT_EQ(phase(), wire::PHASE_READY);
}

TEST_F(NoticesTest, AMalformedOneEndsTheReadingAndKeepsWhatWasThere) {
  send(encoded(wire::PHASE_READY));
  send(std::string(8, '\xff'));
  EXPECT_EQ(notices_.fd(), -1);
  EXPECT_EQ(phase(), wire::PHASE_READY);
}

TEST_F(NoticesTest, AProcessThatClosesItsEndIsNotPolledAgain) {
  pipe_.reset();
  notices_.receive(*root_, *process_, watch_);
  EXPECT_EQ(notices_.fd(), -1);
}

}  // namespace paddle::agent
