#include "cli/dashboard/live_store.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

LiveStore::Look look_of(const std::string& cluster, const std::vector<JobState>& jobs,
                        bool sees_all = true) {
  LiveStore::Look look;
  look.cluster = Json::object({{"cluster", cluster}});
  look.jobs = jobs;
  for (const JobState& job : jobs) look.known.push_back(job.job);
  look.sees_all = sees_all;
  look.metrics = "text of " + cluster;
  return look;
}

JobState job_of(int cost, const std::string& note = "") {
  return {"j", {{"job", "j"}, {"cost", cost}, {"note", note}}};
}

// The data of the only event with that name; "" if there is none.
std::string data_of(const LiveUpdate& update, const std::string& name) {
  std::string found;
  for (const auto& [event, data] : update.events) {
    if (event == name) found += data;
  }
  return found;
}

TEST(LiveStore, BeforeTheFirstLookThereIsNothing) {
  const LiveStore store;
  EXPECT_EQ(store.since("j", 0).version, 0U);
  EXPECT_TRUE(store.since("j", 0).events.empty());
  EXPECT_EQ(store.metrics(), "");
}

TEST(LiveStore, OnlyKeysThatHaveChangedAreSent) {
  LiveStore store;
  store.publish(look_of("c", {job_of(5)}));
  const LiveUpdate all = store.since("j", 0);
  EXPECT_EQ(data_of(all, "cluster"), R"({"cluster": "c"})");
  EXPECT_EQ(data_of(all, "job"), R"({"job": "j", "cost": 5, "note": ""})");
  EXPECT_TRUE(store.since("j", all.version).events.empty()) << "nothing is new";
  store.publish(look_of("c", {job_of(4)}));
  store.publish(look_of("c", {job_of(4, "n")}));
  EXPECT_EQ(data_of(store.since("j", all.version), "job"), R"({"cost": 4, "note": "n"})");
  EXPECT_EQ(data_of(store.since("j", all.version + 1), "job"), R"({"note": "n"})")
      << "a viewer that has the version between";
  store.publish(look_of("c", {job_of(4, "n")}));
  const LiveUpdate same = store.since("j", all.version + 2);
  EXPECT_EQ(data_of(same, "job"), "");
  EXPECT_NE(data_of(same, "cluster"), "") << "it has the time of the look";
  EXPECT_EQ(store.metrics(), "text of c");
}

TEST(LiveStore, AVersionThatNeverWasGetsEverything) {
  LiveStore store;
  store.publish(look_of("c", {job_of(5)}));
  EXPECT_EQ(data_of(store.since("j", 99), "job"), R"({"job": "j", "cost": 5, "note": ""})");
}

TEST(LiveStore, WithoutAJobOnlyTheClusterIsSent) {
  LiveStore store;
  store.publish(look_of("c", {job_of(5)}));
  ASSERT_EQ(store.since("", 0).events.size(), 1U);
  EXPECT_EQ(store.since("", 0).events[0].first, "cluster");
}

TEST(LiveStore, ARemovedJobIsGoneOnceAndMayReturn) {
  LiveStore store;
  store.publish(look_of("c", {job_of(5)}));
  store.publish(look_of("c", {}));
  const LiveUpdate gone = store.since("j", 1);
  EXPECT_EQ(data_of(gone, "gone"), R"({"job": "j"})");
  store.publish(look_of("c", {}));
  EXPECT_EQ(data_of(store.since("j", gone.version), "gone"), "") << "it was sent";
  store.publish(look_of("c", {job_of(5)}));
  EXPECT_EQ(data_of(store.since("j", gone.version), "gone"), "");
  EXPECT_EQ(data_of(store.since("j", gone.version), "job"),
            R"({"job": "j", "cost": 5, "note": ""})");
}

TEST(LiveStore, AJobIsUnknownOnlyAfterEveryNodeHasAnswered) {
  LiveStore store;
  store.publish(look_of("c", {}, false));
  EXPECT_EQ(data_of(store.since("j", 0), "gone"), "");
  store.publish(look_of("c", {}, true));
  EXPECT_EQ(data_of(store.since("j", 1), "gone"), R"({"job": "j"})");
  EXPECT_EQ(data_of(store.since("<b>\n", 0), "gone"), R"({"job": "<b>\n"})");
}

TEST(LiveStore, AKnownJobThatIsNotReadYetIsNotGone) {
  LiveStore store;
  LiveStore::Look look = look_of("c", {});
  look.known = {"j"};
  store.publish(look);
  ASSERT_EQ(store.since("j", 0).events.size(), 1U);
  EXPECT_EQ(store.since("j", 0).events[0].first, "cluster");
}

}  // namespace
}  // namespace paddle::cli
