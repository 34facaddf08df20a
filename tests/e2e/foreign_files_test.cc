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
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "label,class,setosa,versicolor,\"virginica, new\"");
  EXPECT_TRUE(lines[1].starts_with("setosa,setosa,0.")) << lines[1];
  EXPECT_EQ(std::ranges::count(lines[1], ','), 4) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("versicolor,versicolor,0.")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("\"virginica, new\",\"virginica, new\",0.")) << lines[3];
  const std::string json =
      succeed("paddle predict " + snapshot + " --data=train.csv --output=jsonl | head -n 1").out;
  EXPECT_TRUE(json.starts_with(R"({"label":"setosa","class":"setosa","score":0.)")) << json;
  EXPECT_NE(json.find(R"("probabilities":{"setosa":0.)"), std::string::npos) << json;
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
      "label,class\n1,1\n2,2\n3,3\n");
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

// Steps that hints name, typed as they stand there.
class ForeignSteps : public ForeignFiles {
 protected:
  void write_model(const std::string& data, const std::string& embedding) {
    folder_.write("job.toml", "[data]\ntrain = \"train.txt\"\n" + data + R"(
[[layer]]
name = "rows"
type = "embedding"
size = 1
)" + embedding + R"(
[[layer]]
name = "score"
type = "fc"
input = ["rows"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "label"
[optimizer]
learning_rate = 0.1
[train]
passes = 1
batch_size = 2
)");
  }
  void write_libsvm() {
    write_model("format = \"libsvm\"",
                "input = [\"features\"]\npooling = \"sum\"\nweight = { sparse = true }");
  }
  // `command` reads `file` and fails with these words. Then the sed of its hint, with the number
  // `which`, writes the file anew, and `command` succeeds.
  Ran type_step(const std::string& command, const std::string& file, const std::string& says,
                std::size_t which = 0) {
    const Ran failed = shell(command);
    EXPECT_EQ(failed.code, 6) << command << "\n" << failed.error;
    EXPECT_NE(failed.error.find(says), std::string::npos) << failed.error;
    std::size_t at = failed.error.find("sed ", failed.error.find("hint: "));
    for (; which > 0 && at != std::string::npos; --which) at = failed.error.find("sed ", at + 1);
    const std::size_t end = failed.error.find(" OLD >NEW", at);
    if (at == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << "no step in " << failed.error;
      return failed;
    }
    succeed(fmt::format("{0} {1} >new && mv new {1}", failed.error.substr(at, end - at), file));
    return succeed(command);
  }
  std::string text(const std::string& file) { return TemporaryFolder::read(folder_ / file); }
};

TEST_F(ForeignSteps, LeaveTheFieldsOfLibffmOut) {
  write_libsvm();
  const std::string scratch = " --from_scratch";
  for (const auto& [lines, became] : std::vector<std::pair<std::string, std::string>>{
           {"1 0:3:1\n0 1:4:1\n", "1 3:1\n0 4:1\n"},
           {"-1 0:3:0.5 12:7:1\n+1 3:9:2e-1 0:3:-4\n", "-1 3:0.5 7:1\n+1 9:2e-1 3:-4\n"},
           {"1\t0:3:1\t1:4:1\n0\t0:5:1\n", "1\t3:1\t4:1\n0\t5:1\n"},
           {"1 0:3:1 \r\n0 1:4:1\r\n", "1 3:1 \r\n0 4:1\r\n"}}) {
    folder_.write("train.txt", lines);
    type_step(kTrain + scratch, "train.txt", "it is field:index:value, as in files of libffm");
    EXPECT_EQ(text("train.txt"), became);
  }
}

TEST_F(ForeignSteps, LeaveTheWeightsOfXgboostOutOrAddALabel) {
  write_libsvm();
  const std::string says =
      "it is index:value, so the label is missing, or has a weight as in XGBoost";
  for (const auto& [lines, became] : std::vector<std::pair<std::string, std::string>>{
           {"1:0.5 3:1\n0:2 4:1\n", "1 3:1\n0 4:1\n"},
           {"0:2 1:1 4:0.5\n1:1e-2 2:1\n", "0 1:1 4:0.5\n1 2:1\n"},
           {"1:0.5\t3:1\n0:1\t4:1\r\n", "1\t3:1\n0\t4:1\r\n"}}) {
    folder_.write("train.txt", lines);
    type_step(kTrain + " --from_scratch", "train.txt", says, 1);
    EXPECT_EQ(text("train.txt"), became);
  }
  // Data for predictions without any label.
  folder_.write("new.txt", "1:0.5 3:1\n4:1\n");
  const Ran predicted =
      type_step("paddle predict --snapshot=save/pass-00000 --data=new.txt", "new.txt", says);
  EXPECT_EQ(text("new.txt"), "0 1:0.5 3:1\n0 4:1\n");
  EXPECT_EQ(lines_of(predicted.out).size(), 2U) << predicted.out;
}

TEST_F(ForeignSteps, AddALabelToTheTestFileOfCriteo) {
  write_model("format = \"criteo\"", "input = [\"C1\", \"C2\"]\nweight = { sparse = true }");
  std::string fields;  // all but the label
  for (int i = 1; i <= 39; ++i)
    fields += (i > 1 ? "\t" : "") + (i < 14 ? "7" : fmt::format("{:08x}", i));
  folder_.write("train.txt", "1\t" + fields + "\n0\t" + fields + "\n");
  succeed(kTrain);
  const std::string says =
      "39 fields, not 40: the label is missing, as in the challenge's test.txt";
  const std::string predict = "paddle predict --snapshot=save/pass-00000 --data=";
  folder_.write("test.txt", fields + "\n" + fields + "\n");
  EXPECT_EQ(lines_of(type_step(predict + "test.txt", "test.txt", says).out).size(), 2U);
  EXPECT_EQ(text("test.txt"), "0\t" + fields + "\n0\t" + fields + "\n");

  folder_.write("train.txt", fields + "\n");
  type_step(kTrain + " --from_scratch", "train.txt", says);
  // The step is that of the unpacked file. Empty fields are no missing label.
  folder_.write("packed.txt", fields + "\n");
  fails("gzip packed.txt && " + predict + "packed.txt.gz", 6, "packed.txt.gz:1: " + says,
        "sed 's/^/0\\t/'");
  folder_.write("empty.txt",
                "0\t" + std::string(12, '\t') + fields.substr(fields.find("0000000e") - 1) + "\n");
  succeed(predict + "empty.txt");
}

TEST_F(ForeignSteps, AddALabelToTextsAndTables) {
  write_model("format = \"bow\"\ndictionary = \"words\"",
              "input = [\"words\"]\npooling = \"sum\"\nweight = { sparse = true }");
  folder_.write("words", "a\nb\n<unk>\n");
  folder_.write("train.txt", "1\ta b\n0\tb\n");
  succeed(kTrain);
  const std::string predict = "paddle predict --snapshot=save/pass-00000 --data=";
  folder_.write("new.txt", "a b\nb\n");
  EXPECT_EQ(
      lines_of(type_step(predict + "new.txt", "new.txt", "not of the form label<TAB>words").out)
          .size(),
      2U);

  // A csv table needs a value for each column. Its hint names no command, as a label's column may
  // stand anywhere.
  std::string csv = kCsv;
  csv.replace(csv.find("header = true"), 13, "header = false");
  write_job(csv + kSlots);
  folder_.write("train.csv", "1,0,1\n0,1,2\n");
  succeed(kTrain + " --from_scratch");
  folder_.write("new.csv", "1,0\n0,1\n");
  const std::string predict_csv = "paddle predict --snapshot=save/pass-00019 --data=new.csv";
  fails(predict_csv, 6, "new.csv:1: 2 fields, not 3", "with any label");
  EXPECT_EQ(lines_of(succeed("sed -i 's/$/,0/' new.csv && " + predict_csv).out).size(), 2U);
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
