// Sums between cards by this machine's NCCL: a group of one rank, a group whose second rank never
// joins, and groups of two processes that share the card.
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "engine/gpu/card_group.h"
#include "tests/gpu/card_memory.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::device {
namespace {

using test::card;
using Values = std::vector<float>;

Status sum_and_wait(CardGroup& group, const Stream& stream, const CardMemory<float>& memory) {
  PADDLE_TRY_STATUS(group.sum(stream.handle(), memory.data(), memory.capacity(), in_seconds(60)));
  PADDLE_TRY(const Event done, Event::make(card()));
  card().record(stream.handle(), done.handle());
  return group.wait(done.handle(), in_seconds(60), [] { return Status(); });
}

TEST(GroupOnCard, OneRankJoinsSumsInPlaceAndEnds) {
  const CommunicatorId id = expect(card().make_communicator_id());
  const Stream stream = expect(Stream::open(card()));
  const auto memory = on_card<float>(card(), stream, {1, 2.5F, -3});
  const auto group = expect(CardGroup::join(card(), id, {0, 1, "tests"}, in_seconds(60)));
  for (int i = 0; i < 3; ++i) expect(sum_and_wait(*group, stream, memory));
  EXPECT_EQ(read(card(), stream, memory), (Values{1, 2.5F, -3}));
}

TEST(GroupOnCard, Trap32AJoinThatWaitsForAnotherRankIsAborted) {
  const CommunicatorId id = expect(card().make_communicator_id());
  const auto joined = CardGroup::join(card(), id, {0, 2, "tests"}, in_seconds(1));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::kUnreachable) << joined.error().message;
  const Stream stream = expect(Stream::open(card()));
  const auto memory = on_card<float>(card(), stream, {5});
  card().launch(stream.handle(), fill(memory, 6));
  EXPECT_EQ(read(card(), stream, memory), Values{6}) << "the card works on";
}

// The library refuses two ranks with one card, unless they seem to be on two hosts.
struct Pair {
  explicit Pair(const std::vector<std::string>& more) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    for (const std::string rank : {"0", "1"}) {
      std::vector<std::string> arguments{self, "--sums", rank, "2", folder / "id"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      std::vector<std::string> environment{"NCCL_HOSTID=host-" + rank};
      for (char** one = ::environ; *one != nullptr; ++one) environment.emplace_back(*one);
      processes.emplace_back(arguments, folder / rank, environment);
    }
  }

  test::TemporaryFolder folder;
  std::vector<test::Process> processes;
};

TEST(GroupOnCard, TwoProcessesHaveTheSameSums) {
  Pair pair({});
  for (test::Process& one : pair.processes) EXPECT_EQ(one.wait(), 0) << one.output();
  EXPECT_EQ(pair.processes[0].output(), pair.processes[1].output());
}

TEST(GroupOnCard, AKilledRankEndsTheSumOfTheOther) {
  Pair pair({"--last-dies"});
  EXPECT_EQ(pair.processes[1].wait(), 128 + SIGKILL) << pair.processes[1].output();
  EXPECT_EQ(pair.processes[0].wait(), 0) << pair.processes[0].output();
}

}  // namespace
}  // namespace paddle::device
