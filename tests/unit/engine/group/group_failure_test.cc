// Groups in which something goes wrong: every rank ends, and knows the first cause.
#include "tests/unit/engine/group/group_fixture.h"

namespace paddle::collective {
namespace {

using std::chrono::milliseconds;

// As train(), of a rank that may still be joining when another one fails.
Error end_of(Result<std::unique_ptr<Group>>& group, std::size_t floats) {
  return group ? train(**group, floats) : group.error();
}

class GroupFailure : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, GroupFailure, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });
INSTANTIATE_TEST_SUITE_P(Lanes, GroupFailure, ::testing::ValuesIn(ways_of_lanes()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(GroupFailure, Trap01AKilledRankIsNamedByAllOthersInTheMiddleOfABucket) {
  expect_a_killed_rank_is_named(options_of(3, GetParam()), 0);
}

TEST_P(GroupFailure, Trap02ARankThatEndsBeforeItsFirstCollectiveIsNamed) {
  as_ranks(options_of(3, GetParam()), [](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    if (rank == 1) {
      ASSERT_TRUE(group) << group.error().message;
      return group->reset();
    }
    const Error why = end_of(group, 100);
    EXPECT_NE(why.message.find("rank 1 (node-1)"), std::string::npos) << why.message;
  });
}

TEST_P(GroupFailure, Trap04ARanksOwnErrorReachesAllOthersAsItIs) {
  as_ranks(options_of(4, GetParam()), [](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    if (rank == 2) {
      ASSERT_TRUE(group) << group.error().message;
      (*group)->abort(Error{Errc::kData, "part-00002: bad record in line 7", "mend it"});
    }
    const Error why = end_of(group, 100'000);
    EXPECT_EQ(why.code, Errc::kData);
    EXPECT_EQ(why.message, "rank 2 (node-2): part-00002: bad record in line 7");
    EXPECT_EQ(why.hint, "mend it");
  });
}

TEST_P(GroupFailure, Trap04AReasonThatIsNoTextReachesAllOthersToo) {
  as_ranks(options_of(2, GetParam()), [](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    if (rank == 1) {
      ASSERT_TRUE(group) << group.error().message;
      (*group)->set_activity("reads part-\xe9");
      (*group)->abort(Error{Errc::kData, "part-\xe9: bad record"});
    }
    const Error why = end_of(group, 1000);
    EXPECT_EQ(why.code, Errc::kData);
    EXPECT_EQ(why.message, rank == 1 ? "rank 1 (node-1): part-\xe9: bad record"
                                     : "rank 1 (node-1): part-\\xe9: bad record");
  });
}

TEST_P(GroupFailure, Trap16AnAbortFromAnotherThreadEndsAWaitAndASecondOneChangesNothing) {
  as_ranks(options_of(2, GetParam()), [](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    std::thread other;
    if (rank == 0) {
      ASSERT_TRUE(group) << group.error().message;
      other = std::thread([&] {
        (*group)->abort(Error{Errc::kFailed, "first"});
        (*group)->abort(Error{Errc::kFailed, "second"});
      });
    }
    EXPECT_EQ(end_of(group, 100'000).message, "rank 0 (node-0): first");
    if (group) {
      EXPECT_EQ((*group)->barrier().error().message, "rank 0 (node-0): first");
    }
    if (other.joinable()) other.join();
  });
}

TEST(GroupFailureTest, Trap05RanksOfUnlikePlansAreBothNamedBeforeASum) {
  as_ranks(options_of(3), [](GroupOptions own) {
    const std::uint64_t plan = own.rank == 1 ? 0xbb : 0xaa;
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    std::vector<float> carried{5};
    const auto infos = (*group)->begin_step({.step = 1, .plan_hash = plan, .samples = 1}, carried);
    ASSERT_FALSE(infos);
    EXPECT_EQ(infos.error().code, Errc::kUsage);
    EXPECT_NE(infos.error().message.find("rank 1 (node-1)"), std::string::npos);
    EXPECT_EQ(carried, std::vector<float>{5});
  });
}

TEST(GroupFailureTest, Trap05RanksThatCallDifferentlyAreBothNamed) {
  as_ranks(options_of(2), [](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    std::vector<float> bucket(rank == 0 ? 20'000 : 20'032);
    const std::vector<float> shares{1, 1};
    const auto reduced = (*group)->reduce_scatter(bucket, shares).wait();
    ASSERT_FALSE(reduced);
    EXPECT_EQ(reduced.error().code, Errc::kUsage) << reduced.error().message;
    EXPECT_NE(reduced.error().message.find("rank 0 (node-0)"), std::string::npos);
    EXPECT_NE(reduced.error().message.find("rank 1 (node-1)"), std::string::npos);
  });
}

TEST(GroupFailureTest, Trap06GroupsOfUnlikeSizeAreRefused) {
  auto options = options_of(2);
  options[1].members.push_back({"node-2", {"127.0.0.1", 1}});
  as_ranks(std::move(options), [](GroupOptions own) {
    const auto group = Group::join(std::move(own), in(milliseconds(500)));
    EXPECT_FALSE(group);
  });
}

TEST(GroupFailureTest, TwoRanksOnOneCardAreRefused) {
  auto options = options_of(3);
  options[0].gpu = options[2].gpu = "GPU-1";
  options[1].gpu = "GPU-2";
  as_ranks(std::move(options), [](GroupOptions own) {
    const auto group = Group::join(std::move(own), soon());
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::kUsage);
    EXPECT_NE(group.error().message.find("rank 0 (node-0) and rank 2 (node-2) use the same GPU"),
              std::string::npos)
        << group.error().message;
  });
}

TEST(GroupFailureTest, StopEndsAJoinAndAWait) {
  auto options = options_of(2);
  options[0].stop = [] { return true; };
  const auto joined = Group::join(std::move(options[0]), soon());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, Errc::kInterrupted);
  EXPECT_NE(joined.error().message.find("rank 1 (node-1)"), std::string::npos);

  auto again = options_of(2);
  std::atomic<bool> stops = false;
  again[1].stop = [&] { return stops.load(); };
  as_ranks(std::move(again), [&](GroupOptions own) {
    const std::uint32_t rank = own.rank;
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    if (rank == 1) stops = true;
    const Error why = train(**group, 1000);
    EXPECT_EQ(why.code, Errc::kInterrupted);
    EXPECT_EQ(why.message, "rank 1 (node-1): stopped");
  });
}

TEST(GroupFailureTest, JoinNamesTheRanksThatDoNotCome) {
  auto options = options_of(3);
  options.pop_back();
  as_ranks(std::move(options), [](GroupOptions own) {
    const auto group = Group::join(std::move(own), in(milliseconds(300)));
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, Errc::kUnreachable);
    EXPECT_NE(group.error().message.find("rank 2 (node-2)"), std::string::npos)
        << group.error().message;
  });
}

TEST(GroupFailureTest, TalliesThatCannotBeAddedEndTheGroup) {
  as_ranks(options_of(3), [](GroupOptions own) {
    auto group = Group::join(std::move(own), soon());
    ASSERT_TRUE(group) << group.error().message;
    const Tally tally{std::vector<std::uint64_t>((*group)->rank() == 1 ? 2 : 1), {}};
    const auto sum = (*group)->sum(tally);
    ASSERT_FALSE(sum);
    EXPECT_EQ(sum.error().code, Errc::kUsage);
    EXPECT_NE(sum.error().message.find("rank 1 (node-1)"), std::string::npos);
    const Status after = (*group)->barrier();
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error().code, Errc::kUsage) << after.error().message;
  });
}

}  // namespace
}  // namespace paddle::collective
