// Files as people have them, through training, tests, predictions and exports.
#include "tests/e2e/trained_model.h"

namespace paddle::test {
namespace {

class ForeignFiles : public TrainedModel {
 protected:
  // A job of one csv table with these lines for its columns and slots.
  void write_job(const std::string& data) {
    folder_.write("job.toml", "[data]\ntrain = \"train.csv\"\ntest = \"train.csv\"\n" + data + R"(
[[layer]]
name = "scores"
type = "fc"
input = ["sizes"]
size = 3
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["scores"]
label = "species"
[optimizer]
learning_rate = 5
[train]
passes = 20
batch_size = 3
)");
  }
  const std::string kTrain = "paddle train --local --config=job.toml --save_dir=save";
};

constexpr const char* kSlots = R"(
[[data.slot]]
name = "sizes"
type = "float"
columns = ["length", "width"]
[[data.slot]]
name = "species"
type = "id"
)";

constexpr const char* kCsv =
    "format = \"csv\"\ncolumns = [\"length\", \"width\", \"species\"]\nheader = true\n";

// As a spreadsheet saves it: with a byte order mark, blanks, quotes, and texts for classes.
constexpr const char* kIris =
    "\xef\xbb\xbflength, width, species\r\n1, 0, setosa\r\n0, 1, \"versicolor\"\r\n"
    "0, 0, \"virginica, new\"\r\n";

TEST_F(ForeignFiles, ClassesWithNamesKeepThemInTheModel) {
  write_job(std::string(kCsv) + kSlots +
            "labels = [\"setosa\", \"versicolor\", \"virginica, new\"]\n");
  folder_.write("train.csv", kIris);
  succeed(kTrain);
  const std::string snapshot = "--snapshot=save/pass-00019";
  const std::vector<std::string> lines =
      lines_of(succeed("paddle predict " + snapshot + " --data=train.csv").out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(lines[0].starts_with("setosa,setosa,0.")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("versicolor,versicolor,0.")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("\"virginica, new\",\"virginica, new\",0.")) << lines[2];
  const std::string json =
      succeed("paddle predict " + snapshot + " --data=train.csv --output=jsonl | head -n 1").out;
  EXPECT_TRUE(json.starts_with(R"({"label":"setosa","class":"setosa","score":0.)")) << json;
  EXPECT_NE(
      succeed("paddle test " + snapshot + " --data=train.csv --json").out.find("\"samples\":3"),
      std::string::npos);
  EXPECT_NE(succeed("cat save/pass-00019/model/slots.json").out.find(R"("labels":["setosa",)"),
            std::string::npos);
  folder_.write("new.csv", "length,width,species\n1,0,rose\n");
  fails("paddle predict " + snapshot + " --data=new.csv", 6,
        "new.csv:2: column 'species': 'rose' is not one of the labels setosa, versicolor",
        "labels");
}

TEST_F(ForeignFiles, ALabelThatFitsNoClassIsNamedByItsLine) {
  write_job(std::string(kCsv) + kSlots);
  folder_.write("train.csv", "length,width,species\n1,0,1\n0,1,2\n0,0,3\n");
  fails(kTrain, 6,
        "train.csv:4: layer 'cost': label 3 in slot 'species' is not below the 3 classes",
        "labels = [1, 2, 3]");
  succeed(kTrain + " --set=data.on_bad_record=skip 2>&1 | grep 'left out 1 bad records'");
  // The step that the hint names.
  write_job(std::string(kCsv) + kSlots + "labels = [1, 2, 3]\n");
  succeed(kTrain + " --from_scratch");
  EXPECT_EQ(
      succeed("paddle predict --snapshot=save/pass-00019 --data=train.csv | cut -d, -f1,2").out,
      "1,1\n2,2\n3,3\n");
  folder_.write("train.csv", kIris);
  write_job(std::string(kCsv) + kSlots);
  fails(kTrain + " --from_scratch", 6,
        "train.csv:2: column 'species': 'setosa' is not a whole number",
        "labels = [\"no\", \"yes\"]");
}

// A hash is the number of no class. The step of the hint is the one that the error of a text names.
TEST_F(ForeignFiles, ALabelOfHashesIsRefusedBeforeTheStart) {
  std::string slots = kSlots;
  slots.replace(slots.rfind("\"id\""), 4, "\"hash\"");
  write_job(kCsv + slots);
  folder_.write("train.csv", kIris);
  const std::string says =
      "layer 'cost': label 'species' is a slot of hashes, which are not numbers of classes";
  for (const char* command : {"paddle plan --local --config=job.toml", kTrain.c_str()})
    fails(command, 2, says, "labels = [\"no\", \"yes\"], with type = \"id\"");
  EXPECT_EQ(shell("ls save").code, 2) << "nothing has started";
  write_job(std::string(kCsv) + kSlots +
            "labels = [\"setosa\", \"versicolor\", \"virginica, new\"]\n");
  succeed("paddle plan --local --config=job.toml");

  slots = kSlots;
  slots.replace(slots.rfind("\"id\""), 4, "\"hashes\"");
  slots.replace(slots.find("columns = [\"length\", \"width\"]"), 29, "width = 2");
  write_job("format = \"jsonl\"\n" + slots);
  folder_.write("train.csv", R"({"sizes": [1, 0], "species": ["setosa"]})"
                             "\n");
  fails(kTrain, 2, says, "(\"ids\" for lists of texts)");
}

TEST_F(ForeignFiles, RawNumbersAndEmptyFieldsAreWarnedOf) {
  write_job(std::string(kCsv) + kSlots);
  folder_.write("train.csv", "length,width,species\n1,30000,1\n,20000,2\n0,10000,0\n");
  const Ran ran = shell(kTrain + " --num_passes=3 --set=optimizer.learning_rate=0");
  EXPECT_EQ(ran.code, 0) << ran.error;
  const std::string& log = ran.error;
  const std::size_t large = log.find("the numbers of width (about 20000) are large");
  EXPECT_NE(large, std::string::npos) << log;
  EXPECT_EQ(log.find("are large", large + 50), std::string::npos) << "it is said once";
  EXPECT_NE(log.find("empty fields were read as 0, in the first 3 records those of length (1)"),
            std::string::npos)
      << log;
}

}  // namespace
}  // namespace paddle::test
