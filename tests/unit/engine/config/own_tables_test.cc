// [[table]] of job.toml, and tables that a program gives in its code.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/config/job_config_fixture.h"

namespace paddle::config {
namespace {

constexpr const char* kProgram = "[trainer]\ncommand = [\"python3\", \"train.py\"]\n";
constexpr const char* kUser = "[[table]]\nname = \"user\"\nwidth = 16\n";

class OwnTables : public JobConfigTest {
 protected:
  std::string write(const std::string& text) { return folder_.write("job.toml", text); }
  Result<JobConfig> read(const std::string& text) { return read_job(write(text)); }
  // The message without the folder, and the hint.
  std::string mistake_in(const Result<JobConfig>& job) {
    if (job) return "none";
    EXPECT_EQ(job.error().code, Errc::kUsage);
    std::string message = job.error().message;
    const std::string prefix = folder_.path() + "/";
    if (message.starts_with(prefix)) message.erase(0, prefix.size());
    return message + "\n-> " + job.error().hint;
  }
};

TEST_F(OwnTables, AreReadWithOptimizerAndStrategy) {
  const auto job = read(std::string("seed = 3\n") + kProgram + kUser +
                        "[[table]]\nname = \"item\"\nwidth = 1\n"
                        "[optimizer]\nmethod = \"adagrad\"\n[strategy]\nsparse = \"async\"\n");
  ASSERT_TRUE(job) << job.error().message;
  ASSERT_EQ(job->tables.size(), 2U);
  EXPECT_EQ(job->tables[0].name, "user");
  EXPECT_EQ(job->tables[0].width, 16U);
  EXPECT_EQ(job->tables[0].location, folder_ / "job.toml:4");
  EXPECT_EQ(job->tables[1].name, "item");
  EXPECT_TRUE(job->layers.empty());
  EXPECT_EQ(job->optimizer.method(), "adagrad");
  EXPECT_EQ(job->sparse_strategy, wire::STRATEGY_ASYNC);
  EXPECT_EQ(job->seed, 3U);
}

TEST_F(OwnTables, HaveTheParametersOfEmbeddingsWithTheSameKeys) {
  const auto job = read(kProgram +
                        std::string("[[table]]\nname = \"user\"\nwidth = 16\ninitial_std = 0.01\n"
                                    "initial_mean = 0.5\nlearning_rate = 2.0\nl1 = 0.1\nl2 = 0.2\n"
                                    "clip_value = 3.0\nclip_norm = 4.0\nentry_count = 2\n"
                                    "entry_probability = 0.5\nexpire_passes = 7\nbytes_max = 1000\n"
                                    "on_full = \"evict\"\nunseen = \"draw\"\nstatic = true\n") +
                        "[[table]]\nname = \"item\"\nwidth = 4\n");
  ASSERT_TRUE(job) << job.error().message;
  const auto parameters = table_parameters(*job);
  ASSERT_EQ(parameters.size(), 2U);
  const wire::ParameterSpec& user = parameters[0];
  EXPECT_EQ(user.name(), "user");
  ASSERT_EQ(user.dims_size(), 2);
  EXPECT_EQ(user.dims(0), 0U);
  EXPECT_EQ(user.dims(1), 16U);
  EXPECT_TRUE(user.sparse());
  EXPECT_TRUE(user.is_static());
  EXPECT_EQ(user.initial_std(), 0.01F);
  EXPECT_EQ(user.initial_mean(), 0.5F);
  EXPECT_EQ(user.learning_rate(), 2);
  EXPECT_EQ(user.l1(), 0.1F);
  EXPECT_EQ(user.l2(), 0.2F);
  EXPECT_EQ(user.clip_value(), 3);
  EXPECT_EQ(user.clip_norm(), 4);
  EXPECT_EQ(user.table().entry_count(), 2U);
  EXPECT_EQ(user.table().entry_probability(), 0.5F);
  EXPECT_EQ(user.table().expire_passes(), 7U);
  EXPECT_EQ(user.table().bytes_max(), 1000U);
  EXPECT_TRUE(user.table().evict());
  EXPECT_TRUE(user.table().draws_unseen());
  EXPECT_EQ(parameters[1].initial_std(), 0.5F);  // 1 / sqrt(width)
  EXPECT_TRUE(parameters[1].has_table());
  EXPECT_FALSE(parameters[1].has_l2());
}

TEST_F(OwnTables, NeedAProgram) {
  const std::string mistake = mistake_in(read(kUser));
  EXPECT_TRUE(mistake.starts_with("job.toml:1:")) << mistake;
  EXPECT_NE(mistake.find("[[table]] needs a program that trains it, but [trainer] has no "
                         "'command'"),
            std::string::npos)
      << mistake;
  EXPECT_NE(mistake.find("\n  [[table]]\n"), std::string::npos) << mistake;
  EXPECT_NE(mistake.find("-> set it: command = [\"python3\", \"train.py\"]"), std::string::npos)
      << mistake;
}

TEST_F(OwnTables, ExcludeLayers) {
  const std::string both = mistake_in(read(std::string(kJob) + kProgram + kUser));
  EXPECT_NE(both.find("[[table]] and [[layer]] cannot be combined"), std::string::npos) << both;
  EXPECT_NE(both.find("layers of type embedding"), std::string::npos) << both;
}

TEST_F(OwnTables, MistakesNameTheirPlace) {
  const auto mistake = [&](const std::string& from, const std::string& to) {
    std::string text = kUser;
    text.replace(text.find(from), from.size(), to);
    return mistake_in(read(text + kProgram));
  };
  EXPECT_TRUE(mistake("width = 16", "").starts_with("job.toml:1:1: the table has no 'width'\n"));
  EXPECT_TRUE(mistake("width = 16", "width = 0")
                  .starts_with("job.toml:3:9: 'width' is 0, but must be from 1 to 1048576\n"));
  EXPECT_TRUE(
      mistake("width", "dim")
          .starts_with("job.toml:3:1: unknown key 'dim', did you mean 'width'?\n  dim = 16\n  ^"));
  EXPECT_TRUE(mistake("\"user\"", "\"a/b\"")
                  .starts_with("job.toml:2:8: the name 'a/b' cannot be a file name\n"));
  EXPECT_TRUE(mistake("\"user\"", "\"a\\nb\"").starts_with("job.toml:2:8: the name"));
  EXPECT_TRUE(mistake("width", "sparse = true\nwidth")
                  .starts_with("job.toml:3:10: a [[table]] is always sparse\n"));
  EXPECT_TRUE(mistake("width", "entry_cont = 2\nwidth")
                  .starts_with("job.toml:3:1: unknown key 'entry_cont', did you mean "
                               "'entry_count'?\n"));
  EXPECT_TRUE(mistake("width", "on_full = \"evict\"\nwidth")
                  .starts_with("job.toml:3:11: on_full = \"evict\" needs bytes_max\n"));
  EXPECT_TRUE(mistake("width", "shrink = { label = \"click\" }\nwidth")
                  .starts_with("job.toml:3:10: 'shrink' is for embeddings of [[layer]]"));
  EXPECT_NE(mistake("width = 16", "width = \"a\"").find("-> see docs/job.md#table"),
            std::string::npos);
  const std::string twice = mistake_in(read(std::string(kProgram) + kUser + kUser));
  EXPECT_TRUE(twice.starts_with("job.toml:7:8: the name 'user' is already taken\n")) << twice;
}

// The program has the dense parameters, so the strategy for them has no meaning.
TEST_F(OwnTables, TheStrategyForDenseParametersIsIgnored) {
  const auto job = read(std::string(kProgram) + kUser + "[strategy]\ndense = \"collective\"\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_FALSE(job->has_group());
  EXPECT_EQ(job->dense_strategy, wire::STRATEGY_SYNC);
  const auto geo =
      read(std::string(kProgram) + kUser + "[strategy]\nsparse = \"geo\"\nupdate_frequency = 5\n");
  ASSERT_TRUE(geo) << geo.error().message;
  EXPECT_EQ(geo->dense_strategy, wire::STRATEGY_GEO);
  EXPECT_EQ(geo->update_frequency, 5U);
  EXPECT_NE(mistake_in(read(std::string(kProgram) + kUser + "[strategy]\nnode_groups = true\n"))
                .find("'node_groups' is for dense parameters, which the program has itself"),
            std::string::npos);
}

TEST_F(OwnTables, HaveNoCopiesOfSnapshots) {
  EXPECT_TRUE(mistake_in(read(std::string(kProgram) + kUser + "[train]\nsnapshot_copies = 2\n"))
                  .starts_with("job.toml:7:19: snapshots with [[table]] are on the node of "
                               "trainer 0 only\n"));
}

TEST_F(OwnTables, MayComeFromCode) {
  const std::string code =
      "[optimizer]\nmethod = \"adam\"\n[strategy]\nsparse = \"async\"\n" + std::string(kUser);
  const auto alone = read_tables_job("", {}, code);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->tables.size(), 1U);
  EXPECT_EQ(alone->optimizer.method(), "adam");
  EXPECT_EQ(alone->sparse_strategy, wire::STRATEGY_ASYNC);

  const std::string path =
      write(std::string("seed = 9\n[train]\npasses = 3\n[data]\ntrain = \"x-*\"\n") + kProgram);
  const auto both = read_tables_job(path, {"train.passes=4", "optimizer.learning_rate=0.5"}, code);
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->seed, 9U);
  EXPECT_EQ(both->train.passes, 4U);
  EXPECT_EQ(both->data.train, "x-*");
  EXPECT_EQ(both->optimizer.method(), "adam");
  EXPECT_EQ(both->optimizer.learning_rate(), 0.5F);
}

TEST_F(OwnTables, MayBeInTheFileAlone) {
  const std::string path = write(kUser);  // started by hand, without [trainer] command
  const auto job = read_tables_job(path, {}, "[optimizer]\nlearning_rate = 0.25\n");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->tables.size(), 1U);
  EXPECT_EQ(job->optimizer.learning_rate(), 0.25F);
}

TEST_F(OwnTables, ASectionIsInOnePlace) {
  const std::string path = write(std::string(kProgram) + kUser + "[optimizer]\nmethod = \"sgd\"\n");
  EXPECT_EQ(mistake_in(read_tables_job(path, {}, kUser)),
            "job.toml:3: the program gives 'table' too\n"
            "-> keep it in one place: in job.toml, or in the program");
  EXPECT_TRUE(mistake_in(read_tables_job(path, {}, "[optimizer]\nmethod = \"adam\"\n"))
                  .starts_with("job.toml:6: the program gives 'optimizer' too\n"));
  EXPECT_TRUE(mistake_in(read_tables_job(write(kProgram), {}, ""))
                  .starts_with("job.toml has no [[table]]\n-> add one"));
  EXPECT_TRUE(mistake_in(read_tables_job("", {}, "")).starts_with("the program gives no table\n"));
}

TEST_F(OwnTables, MistakesInCodeNameIt) {
  EXPECT_TRUE(mistake_in(read_tables_job("", {}, "[[table]]\nname = \"user\"\nwidth = -1\n"))
                  .starts_with("tables from code:3:9: 'width' is -1, but must be from 1 to "
                               "1048576\n  width = -1\n"));
  EXPECT_EQ(mistake_in(read_tables_job("", {}, std::string(kUser) + "[train]\npasses = 1\n")),
            "tables from code:4:2: unknown key 'train'\n  [train]\n   ^\n-> see docs/job.md");
  EXPECT_NE(mistake_in(read_tables_job(write(kJob), {}, kUser))
                .find("[[table]] and [[layer]] cannot be combined"),
            std::string::npos);
}

}  // namespace
}  // namespace paddle::config
