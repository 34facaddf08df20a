#include "cli/job/whole_snapshot.h"

#include <sys/stat.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/text.h"
#include "tests/support/snapshot_manifest.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

const char* const kNoManifest = "its MANIFEST is missing or damaged";

std::string hash_of(const std::string& text) {
  return to_hex(sha256_of(as_bytes(text)));
}

std::string line_of(const std::string& name, const std::string& content) {
  return fmt::format("model size={} sha256={} name={}\n", content.size(), hash_of(content), name);
}

class WholeTest : public testing::Test {
 protected:
  WholeTest() {
    folder_.write("secret", "secret");
    folder_.write("pass-00000/job.toml", "weights");
    folder_.write("pass-00000/model/with a space", "model");
  }
  // Writes a MANIFEST with these lines for the files.
  std::string damage(const std::string& lines) {
    std::string text = test::snapshot_manifest(1, 9);
    text = text.substr(0, text.rfind("sha256 ")) + lines;
    folder_.write("pass-00000/MANIFEST", text + "sha256 " + hash_of(text) + "\n");
    return damage_here(folder_ / "pass-00000");
  }
  test::TemporaryFolder folder_;
};

TEST_F(WholeTest, FilesAreWhatTheManifestSays) {
  const std::string good = line_of("job.toml", "weights") + line_of("model/with a space", "model");
  EXPECT_EQ(damage(good), "");
  EXPECT_EQ(damage(good + line_of("model/gone", "")), "model/gone is damaged");
  EXPECT_EQ(damage(line_of("job.toml", "others!")), "job.toml is damaged");
  EXPECT_EQ(damage(line_of("job.toml", "weights2")), "job.toml is damaged");
  folder_.write("pass-00000/done", "damaged");
  EXPECT_EQ(damage(good), "") << "only v0.10's loaders read it, and paddle verify agrees";
  folder_.write("pass-00000/MANIFEST", test::snapshot_manifest(1, 9) + "more\n");
  EXPECT_EQ(damage_here(folder_ / "pass-00000"), kNoManifest);
  EXPECT_EQ(damage_here(folder_ / "none"), kNoManifest);
}

TEST_F(WholeTest, FilesOfParametersAreCheckedToo) {
  snapshot::Manifest manifest = *snapshot::decode_manifest(test::snapshot_manifest(1, 9));
  snapshot::ManifestParameter parameter;
  parameter.spec.set_name("w");
  parameter.spec.add_dims(2);
  for (const std::string& name : {std::string("w"), snapshot::state_file_name("w")})
    parameter.files.push_back({name, 7, sha256_of(as_bytes(std::string("weights"))), 0});
  manifest.parameters.push_back(parameter);
  folder_.write("pass-00000/MANIFEST", snapshot::encode_manifest(manifest));
  folder_.write("pass-00000/w", "weights");
  EXPECT_EQ(damage_here(folder_ / "pass-00000"), "w.state is damaged");
  folder_.write("pass-00000/w.state", "weights");
  EXPECT_EQ(damage_here(folder_ / "pass-00000"), "");
}

TEST_F(WholeTest, AnotherFormatIsNamedWithTheOneThatIsRead) {
  folder_.write("pass-00000/MANIFEST", test::manifest_of_another_format());
  const std::string said = damage_here(folder_ / "pass-00000");
  EXPECT_TRUE(said.starts_with("MANIFEST: it has snapshot format 1, but this program")) << said;
  EXPECT_TRUE(said.ends_with(fmt::format("reads format {}", snapshot::kSnapshotFormat))) << said;
}

TEST_F(WholeTest, ANameThatLeadsOutIsDamageAndOpensNothing) {
  // Size and hash are right, so an empty result would prove that the file was read.
  for (const std::string& name :
       {std::string("../secret"), folder_ / "secret", std::string("model/../../secret"),
        std::string("./job.toml"), std::string("model//w"), std::string("")}) {
    EXPECT_EQ(damage(line_of(name, "secret")), kNoManifest) << name;
  }
  EXPECT_EQ(damage("model size=0 sha256=" + hash_of("") + " name=../../../../proc/kmsg\n"),
            kNoManifest);
}

TEST_F(WholeTest, ALineThatCannotBeReadIsDamage) {
  const std::string sha256 = " sha256=" + hash_of("");
  const std::string good = "model size=0" + sha256 + " name=model/empty\n";
  folder_.write("pass-00000/model/empty", "");
  EXPECT_EQ(damage(good), "");
  for (const std::string& line :
       {"model size=0x" + sha256 + " name=model/x\n", "model size=" + sha256 + " name=model/x\n",
        "model size=-7" + sha256 + " name=model/x\n", "model" + sha256 + " size=0 name=model/x\n",
        "model size=0" + sha256 + " other=1 name=model/x\n", "model size=0" + sha256 + "\n",
        "model size=18446744073709551616" + sha256 + " name=model/x\n",
        std::string("model size=0 sha256=00 name=model/x\n"), std::string("model model/x\n")}) {
    EXPECT_EQ(damage(good + line), kNoManifest) << line;
  }
}

TEST_F(WholeTest, OnlyRegularFilesBelowTheFolderAreRead) {
  fs::create_symlink(folder_ / "secret", folder_ / "pass-00000/model/link");
  ASSERT_EQ(::mkfifo((folder_ / "pass-00000/model/pipe").c_str(), 0600), 0);
  fs::create_directory(folder_ / "pass-00000/model/folder");
  EXPECT_EQ(damage(line_of("model/link", "secret")), "model/link is damaged");
  EXPECT_EQ(damage(line_of("model/pipe", "")), "model/pipe is damaged") << "and it is not awaited";
  EXPECT_EQ(damage(line_of("model/folder", "")), "model/folder is damaged");
  fs::remove_all(folder_ / "pass-00000/model");
  fs::create_directory_symlink(folder_.path(), folder_ / "pass-00000/model");
  EXPECT_EQ(damage(line_of("model/secret", "secret")), "model/secret is damaged");
  fs::remove(folder_ / "pass-00000/MANIFEST");
  fs::create_symlink(folder_ / "secret", folder_ / "pass-00000/MANIFEST");
  EXPECT_EQ(damage_here(folder_ / "pass-00000"), kNoManifest);
}

}  // namespace
}  // namespace paddle::cli
