#include "engine/commands/command.h"
#include "tests/unit/engine/snapshot/snapshot_fixture.h"

namespace paddle::commands {
namespace {

class VerifyCommand : public snapshot::SnapshotTest {
 protected:
  int run(const std::vector<std::string>& arguments) {
    const char* const nothing = nullptr;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_program(arguments, &nothing);
    out_ = testing::internal::GetCapturedStdout();
    error_ = testing::internal::GetCapturedStderr();
    return code;
  }
  std::string out_, error_;
};

TEST_F(VerifyCommand, PrintsALineForEachWholeSnapshot) {
  write();
  EXPECT_EQ(run({"verify", root_}), 0);
  EXPECT_TRUE(out_.starts_with(directory_ + ": whole, 4 passes, step 1234567890123, 3 files, "))
      << out_;
  EXPECT_EQ(error_, "");
  EXPECT_EQ(run({"verify", directory_, "--json"}), 0);
  EXPECT_TRUE(out_.starts_with(
      fmt::format(R"({{"snapshots":[{{"path":"{}","whole":true,"id":")", directory_)))
      << out_;
}

TEST_F(VerifyCommand, NamesTheDamagedFileAndGivesTheCodeForData) {
  write();
  const std::string path = directory_ + "/_fc.wbias.state";
  std::string text = content(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  overwrite(path, text);
  EXPECT_EQ(run({"verify", root_}), static_cast<int>(Errc::kData));
  EXPECT_EQ(out_, directory_ + ": DAMAGED\n");
  EXPECT_NE(error_.find("1 of 1 snapshots cannot be used"), std::string::npos) << error_;
  EXPECT_NE(error_.find("_fc.wbias.state: expected SHA-256 "), std::string::npos) << error_;
  EXPECT_NE(error_.find("hint: "), std::string::npos) << error_;
  EXPECT_EQ(run({"verify", root_, "--json"}), static_cast<int>(Errc::kData));
  EXPECT_NE(out_.find(R"("whole":false,"error":")"), std::string::npos) << out_;
}

TEST_F(VerifyCommand, NamesAnotherFormatAndTheWayOut) {
  write();
  overwrite(directory_ + "/MANIFEST", "snapshot format=1 engine=0.1.0\ncrc32c 0149fd9f\n");
  EXPECT_EQ(run({"verify", root_}), static_cast<int>(Errc::kData));
  EXPECT_EQ(out_, directory_ + ": OF ANOTHER FORMAT\n");
  EXPECT_NE(error_.find(directory_ + ": MANIFEST: it has snapshot format 1, but this program"),
            std::string::npos)
      << error_;
  EXPECT_NE(error_.find("hint: use the release that wrote it"), std::string::npos) << error_;
}

TEST_F(VerifyCommand, WarnsOfADoneFileThatOnlyV010Needs) {
  write();
  std::filesystem::remove(directory_ + "/done");
  EXPECT_EQ(run({"verify", root_}), 0) << error_;
  EXPECT_TRUE(out_.starts_with(directory_ + ": whole, ")) << out_;
  EXPECT_NE(error_.find(directory_ + "/done is missing: the loaders of v0.10 need it"),
            std::string::npos)
      << error_;
  EXPECT_EQ(run({"verify", root_, "--json"}), 0) << error_;
  EXPECT_NE(out_.find(R"("whole":true,)"), std::string::npos) << out_;
  EXPECT_NE(out_.find(R"("warning":")" + directory_ + "/done is missing: "), std::string::npos)
      << out_;
}

TEST_F(VerifyCommand, NeedsOneFolder) {
  EXPECT_EQ(run({"verify"}), static_cast<int>(Errc::kUsage));
  EXPECT_NE(error_.find("hint: paddle verify output/pass-00000"), std::string::npos) << error_;
  EXPECT_EQ(run({"verify", root_, root_}), static_cast<int>(Errc::kUsage));
  EXPECT_EQ(run({"verify", root_}), static_cast<int>(Errc::kData));  // nothing is in it
  EXPECT_EQ(run({"verify", "--help"}), 0);
  EXPECT_NE(out_.find("\n  DIR "), std::string::npos) << out_;
}

}  // namespace
}  // namespace paddle::commands
