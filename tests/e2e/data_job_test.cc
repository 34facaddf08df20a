// Training from other formats, and from memory: the values of a job that parses its files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"

namespace paddle::test {
namespace {

const std::vector<std::string> kShuffled{"--set=train.shuffle_records=100"};

// Lines of multislot, a number of values before each slot's, as JSON.
std::string as_json(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string user, item, other, price, second, click, bought, count;
       in >> count >> user >> count >> item >> other >> count >> price >> second >> count >>
       click >> count >> bought;) {
    out += fmt::format(
        R"({{"click": {}, "unused": null, "items": [{}, {}], "user": {}, "price": [{}, {}], "bought": {}}})"
        "\n",
        click == "1", item, other, user, price, second, bought);
  }
  return out;
}

TEST(DataJob, JsonLinesHaveTheValuesOfMultislot) {
  Job job;
  job.write_clicks(1, 600);
  const std::string text = TemporaryFolder::read(job.folder() / "data/train.txt-00000");
  job.folder().write("data/train.jsonl", as_json(text));
  ASSERT_TRUE(job.run_local("multislot", kShuffled));
  ASSERT_TRUE(job.run_local(
      "jsonl", with(kShuffled, {"--set=data.format=jsonl", "--set=data.train=data/train.jsonl"})));
  EXPECT_FALSE(job.values("jsonl", 2).empty());
  EXPECT_TRUE(job.values("jsonl", 2) == job.values("multislot", 2));
}

// Makes an npz of each file of multislot, with arrays as they come from other programs: of several
// types, and ids between offsets.
constexpr const char* kToNpz = R"py(
import sys, numpy as np
for number, path in enumerate(sys.argv[1:]):
    rows = [line.split() for line in open(path)]
    column = lambda *at: [[row[i] for i in at] for row in rows]
    items = np.array(column(3, 4), dtype=np.int64)
    offsets = np.arange(len(rows) + 1, dtype=np.uint32) * 2
    save = np.savez_compressed if number else np.savez
    save(f"data/train-{number:05}.npz", user=np.array(column(1)).astype(">i4")[:, 0],
         items=items.reshape(-1), items_offsets=offsets,
         price=np.array(column(6, 7), dtype=np.float64), unused=np.array("text"),
         click=np.array(column(9))[:, 0] == "1", bought=np.array(column(11)).astype(np.uint8))
)py";

TEST(DataJob, ArraysOfNumpyHaveTheValuesOfMultislot) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0)
    GTEST_SKIP() << "no python3-numpy";
  Job job;
  job.write_clicks(2, 600);
  job.folder().write("to_npz.py", kToNpz);
  const std::string convert =
      fmt::format("cd {} && /usr/bin/python3 to_npz.py data/train.txt-00000 data/train.txt-00001",
                  job.folder().path());
  ASSERT_EQ(std::system(convert.c_str()), 0);
  const Shape shape{.trainers = 2};
  const std::vector<std::string> npz{"--set=data.format=npz", "--set=data.train=data/train-*.npz"};
  ASSERT_TRUE(job.run("multislot", shape, kShuffled));
  ASSERT_TRUE(job.run("npz", shape, with(kShuffled, npz)));
  EXPECT_FALSE(job.values("npz", 2).empty());
  EXPECT_TRUE(job.values("npz", 2) == job.values("multislot", 2));
  ASSERT_TRUE(job.run("cached", shape, with(with(kShuffled, npz), {"--set=data.cache=true"})));
  EXPECT_TRUE(job.values("cached", 2) == job.values("multislot", 2));

  // Its own records, predicted from both files.
  const auto predicted = [&](const std::string& name, const std::string& data) {
    const std::string out = job.folder() / (name + ".csv");
    const std::string predict =
        fmt::format("{} predict --snapshot={}/pass-00002 --workspace={} --data={} >{}",
                    PADDLE_PROGRAM, job.save_dir(name), job.folder().path(), data, out);
    EXPECT_EQ(std::system(predict.c_str()), 0);
    return TemporaryFolder::read(out);
  };
  EXPECT_EQ(predicted("npz", "data/train-00001.npz"),
            predicted("multislot", "data/train.txt-00001"));
}

// A program for objects behind HTTP: of a pattern it lists what the file `index` there names.
constexpr const char* kOverHttp = R"(set -e
case $1 in
  list) curl -fsS "$2/index" | while read -r name; do echo "$2/$name"; done ;;
  read) exec curl -fsS "$2" ;;
esac
)";

// A server of a folder, and its address.
std::pair<Process, std::string> serve(const std::string& folder, const std::string& log) {
  Process server({"/usr/bin/python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1",
                  "--directory", folder},
                 log);
  EXPECT_TRUE(server.prints(" port ")) << server.output();
  const std::string output = server.output();
  const std::size_t at = output.find(" port ") + 6;
  return {std::move(server), "http://127.0.0.1:" + output.substr(at, output.find(' ', at) - at)};
}

TEST(DataJob, ObjectsBehindHttpHaveTheValuesOfFiles) {
  Job job;
  job.write_clicks(3, 600);
  job.folder().write("objects.sh", kOverHttp);
  const std::string pack = fmt::format(
      "cd {}/data && mkdir ../store && cp train.txt-* ../store && "
      "gzip ../store/train.txt-00001 && ls ../store >index && "
      "mv index ../store",
      job.folder().path());
  ASSERT_EQ(std::system(pack.c_str()), 0);
  const auto [server, address] = serve(job.folder() / "store", job.folder() / "server.log");
  const std::vector<std::string> objects{R"(--set=data.command=["sh","objects.sh"])",
                                         "--set=data.train=" + address,
                                         "--set=data.test=" + address};
  const std::vector<std::string> files = with(kShuffled, {"--set=data.test=data/train.txt-*"});
  const Shape shape{.trainers = 2};
  ASSERT_TRUE(job.run("files", shape, files));
  ASSERT_TRUE(job.run("objects", shape, with(kShuffled, objects)));
  EXPECT_FALSE(job.values("files", 2).empty());
  EXPECT_TRUE(job.values("objects", 2) == job.values("files", 2));
  ASSERT_TRUE(job.run("cached", shape, with(with(kShuffled, objects), {"--set=data.cache=true"})));
  EXPECT_TRUE(job.values("cached", 2) == job.values("files", 2));

  ASSERT_EQ(std::system(("rm " + job.folder().path() + "/store/train.txt-00002").c_str()), 0);
  Process local = job.start_local("missing", objects);
  EXPECT_EQ(local.wait(), static_cast<int>(Errc::kData));
  const std::string named =
      fmt::format("command 'sh objects.sh read {}/train.txt-00002': ended with 22", address);
  EXPECT_NE(local.output().find(named), std::string::npos) << local.output();
}

TEST(DataJob, TrainersThatListOtherObjectsDoNotTrainTogether) {
  Job job;
  job.write_clicks(2, 100);
  // Each look finds another object.
  job.folder().write("objects.sh", R"(case $1 in
  list) echo object-$$ ;;
  read) cat data/train.txt-00000 ;;
esac
)");
  Job::Running running =
      job.start("other", {.trainers = 2}, {R"(--set=data.command=["sh","objects.sh"])"});
  // Whichever comes second is refused, and the other one waits.
  std::optional<int> ended;
  for (std::size_t turn = 0; !ended && turn < 200; ++turn)
    ended = running.trainers[turn % 2].wait(std::chrono::milliseconds(500));
  EXPECT_EQ(ended, static_cast<int>(Errc::kUsage));
  const std::string output = job.output("other", 0) + job.output("other", 1);
  EXPECT_NE(output.find("the list of data.command"), std::string::npos) << output;
}

TEST(DataJob, PassesFromMemoryHaveTheValuesOfFiles) {
  Job job;
  job.write_clicks(2, 600);
  ASSERT_TRUE(job.run_local("files", kShuffled));
  ASSERT_TRUE(job.run_local("memory", with(kShuffled, {"--set=data.cache=true"})));
  EXPECT_TRUE(job.values("memory", 2) == job.values("files", 2));
}

TEST(DataJob, RecordsAboveTheBoundOfTheCacheEndTheJobByName) {
  Job job;
  job.write_clicks(1, 600);
  Process local =
      job.start_local("bounded", {"--set=data.cache=true", "--set=data.cache_bytes_max=5000"});
  EXPECT_EQ(local.wait(), static_cast<int>(Errc::kResource));
  EXPECT_NE(
      local.output().find("exceed the limit of 5000 bytes\nhint: raise [data] cache_bytes_max"),
      std::string::npos)
      << local.output();
}

}  // namespace
}  // namespace paddle::test
