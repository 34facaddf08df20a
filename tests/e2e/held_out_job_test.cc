// Jobs that hold out a part of their training records: their figures are those of files that were
// split by hand.
#include <filesystem>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "base/rng.h"
#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/price_network.h"

namespace paddle::test {
namespace {

constexpr double kFraction = 0.25;
constexpr const char* kHeader = "area,price,town,country\n";

// By the words of docs/job.md; the seed is that of a job that names none.
bool is_held_out(std::uint64_t place) {
  const std::uint64_t hash = hash_combine(hash_combine(1, stable_hash("held out")), place);
  return static_cast<double>(hash >> 11U) * 0x1.0p-53 < kFraction;
}

std::string lines_of_file(int file, int lines) {
  std::string text = kHeader;
  for (int i = 1; i < lines; ++i) {
    const int area = (file * 1000 + i) * 37 % 101;
    text += fmt::format("0.{:03},{:.3f},t{},x\n", area, 0.5 + area * 0.002, area % 23);
  }
  return text;
}

class HeldOutJob : public testing::Test {
 protected:
  // Writes the workspace "split", whose job holds out a part of these files, and "hand", whose job
  // has the same records in two files.
  void write(const std::vector<std::string>& files, const std::string& split_by) {
    std::string train = kHeader, test = kHeader;
    held_out_ = 0;
    for (std::size_t file = 0; file < files.size(); ++file) {
      const std::string text = lines_of_file(static_cast<int>(file), 200);
      cluster_.folder().write("split/data/" + files[file], text);
      std::istringstream lines(text);
      std::string line;
      std::getline(lines, line);
      for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
        const std::size_t town = line.find('t');
        const std::uint64_t place = split_by.empty()
                                        ? hash_combine(stable_hash(files[file]), number)
                                        : stable_hash(line.substr(town, line.rfind(',') - town));
        (is_held_out(place) ? test : train) += line + "\n";
        held_out_ += is_held_out(place) ? 1 : 0;
      }
    }
    cluster_.folder().write("hand/data/train.csv", train);
    cluster_.folder().write("hand/data/test.csv", test);
    const std::string part = fmt::format("test_fraction = {}\n", kFraction) +
                             (split_by.empty() ? "" : "split_by = \"" + split_by + "\"\n");
    write_job("split", "train = \"data/*\"\n" + part);
    write_job("hand", "train = \"data/train.csv\"\ntest = \"data/test.csv\"\n");
  }
  void write_job(const std::string& workspace, const std::string& keys) {
    cluster_.folder().write(
        workspace + "/job.toml",
        "[data]\n" + keys + "format = \"csv\"\nheader = true\n" +
            "columns = [\"area\", \"price\", \"town\", \"country\"]\n" + kPriceNetwork +
            "[optimizer]\nlearning_rate = 0.01\n[train]\npasses = 2\nbatch_size = 10\n" +
            "shuffle_records = 50\n");
  }
  // The engine in the cluster's folder.
  Outcome paddle(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"/usr/bin/env", "-C", cluster_.folder().path(), PADDLE_PROGRAM});
    Process process(arguments, cluster_.folder() / fmt::format("paddle-{}.txt", runs_++));
    const auto code = process.wait(std::chrono::seconds(60));
    return {code.value_or(-1), process.output()};
  }
  // The line of `paddle test` for the job's last snapshot.
  std::string tested(const std::string& job, const std::vector<std::string>& flags) {
    std::vector<std::string> all{"test", "--snapshot=output/" + job + "/pass-00001"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = paddle(all);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output.substr(0, outcome.output.find('\n'));
  }

  LocalCluster cluster_{2};
  int held_out_ = 0;
  int runs_ = 0;
};

TEST_F(HeldOutJob, OneTrainerHasTheFiguresOfASplitByHand) {
  for (const std::string split_by : {"", "town"}) {
    write({"prices.csv"}, split_by);
    std::vector<std::string> outputs;
    for (const std::string workspace : {"split", "hand"}) {
      const Outcome trained = paddle({"train", "--local", "--config=" + workspace + "/job.toml"});
      ASSERT_EQ(trained.code, 0) << trained.output;
      EXPECT_EQ(held_out_costs(trained.output).size(), 2U) << trained.output;
      EXPECT_TRUE(trained.says(fmt::format("({} samples)", held_out_))) << trained.output;
      std::string lines;
      std::istringstream in(trained.output);
      for (std::string line; std::getline(in, line);)
        if (line.find("held-out") != line.npos) lines += line.substr(line.find("pass ")) + "\n";
      outputs.push_back(lines);
    }
    EXPECT_EQ(outputs[0], outputs[1]);
  }
}

TEST_F(HeldOutJob, TwoTrainersTestOnTheSameRecords) {
  ASSERT_EQ(cluster_.run({"up", "cluster.toml"}).code, 0);
  using Files = std::vector<std::string>;
  for (const auto& [name, files, split_by] :
       {std::tuple("one", Files{"prices.csv"}, ""),
        std::tuple("numbered", Files{"prices-0", "prices-1", "prices-2"}, "town")}) {
    std::filesystem::remove_all(cluster_.folder() / "split");
    write(files, split_by);
    const Outcome trained =
        cluster_.run({"train", "--trainers", "2", "--pservers", "1", "--name", name, "split"});
    ASSERT_EQ(trained.code, 0) << trained.output;
    EXPECT_EQ(held_out_costs(trained.output).size(), 2U) << trained.output;
    EXPECT_TRUE(trained.says(fmt::format("({} samples)", held_out_))) << trained.output;

    // The figures to the last digit: those of training, of a file by hand, and of the snapshot.
    const std::string by_hand = tested(name, {"--data=hand/data/test.csv"});
    EXPECT_NE(by_hand.find(fmt::format("samples={} ", held_out_)), std::string::npos) << by_hand;
    EXPECT_EQ(tested(name, {"--workspace=split"}), by_hand);
    const std::string exact = tested(name, {"--workspace=split", "--json"});
    EXPECT_EQ(tested(name, {"--data=hand/data/test.csv", "--json"}), exact);
    const std::string cost =
        exact.substr(exact.find("\"cost\":"), exact.find(",\"rows\"") - exact.find("\"cost\":"));
    const std::string metrics = TemporaryFolder::read(
        cluster_.folder() / fmt::format("output/{}/node_0/metrics.jsonl", name));
    EXPECT_NE(metrics.rfind(cost), std::string::npos) << cost << "\n" << metrics;
    // On the node, whose workspace has all training files.
    const Outcome there = cluster_.run({"test", "--job", name});
    EXPECT_TRUE(there.says(by_hand)) << there.output;
    // With --data every record counts.
    const std::string all = tested(name, {"--workspace=split", "--data=data/*"});
    EXPECT_NE(all.find(fmt::format("samples={} ", 199 * files.size())), std::string::npos) << all;
  }
  EXPECT_EQ(cluster_.run({"teardown", "--yes"}).code, 0);
}

TEST_F(HeldOutJob, AColumnWithASingleTextCannotSplit) {
  write({"prices.csv"}, "country");
  const Outcome trained = paddle({"train", "--local", "--config=split/job.toml"});
  EXPECT_EQ(trained.code, static_cast<int>(Errc::kData)) << trained.output;
  EXPECT_TRUE(trained.says("[data] test_fraction = 0.25 with split_by = 'country' holds out"))
      << trained.output;
  EXPECT_TRUE(trained.says("it has too few different texts")) << trained.output;
}

}  // namespace
}  // namespace paddle::test
