// Fixture with a small snapshot of dense, sparse and optimizer state in a directory of its own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/text.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/writer.h"
#include "tests/support/saved_row.h"

namespace paddle::snapshot {

class SnapshotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/snapshotXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    directory_ = name + "/pass-00000";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static wire::ParameterSpec dense_spec() {
    wire::ParameterSpec spec;
    spec.set_name("_fc.wbias");
    spec.add_dims(2);
    spec.set_initial_std(0.1F);
    spec.set_learning_rate(2);
    spec.set_l2(8e-4F);
    return spec;
  }
  static wire::ParameterSpec sparse_spec() {
    wire::ParameterSpec spec;
    spec.set_name("my table");
    spec.set_sparse(true);
    spec.add_dims(0);
    spec.add_dims(3);
    spec.set_learning_rate(1);
    return spec;
  }
  static SnapshotInfo info() {
    SnapshotInfo info;
    info.optimizer.set_method("adam");
    info.optimizer.set_learning_rate(3e-3F);
    info.optimizer.set_momentum(0.5F);
    info.optimizer.set_beta1(0.9F);
    info.optimizer.set_beta2(0);
    info.optimizer.set_epsilon(1e-30F);
    info.optimizer.set_rho(0.95F);
    info.optimizer.set_beta(2);
    info.optimizer.set_weight_decay(0.03F);
    info.optimizer.set_centered(false);
    info.optimizer.mutable_average()->set_window(0.15F);
    info.samples = 987654321012;
    info.pass = 4;
    info.step = 1234567890123;
    info.seed = ~0ULL;
    info.trainer_cursors = {7, 0, 9};
    info.pass_batches = {3, 0, 4};
    return info;
  }
  static std::vector<test::SavedRow> rows() {
    return {{.id = 0, .marks = 1, .value = {1, 2, 3}, .state = {4, 5, 6, 7, 8, 9}},
            {.id = ~0ULL, .marks = 5, .value = {-1, 0, 1e-30F}, .state = {0, 0, 0, 1, 1, 1}}};
  }
  void write(float first_value = 1.0F) {
    auto writer = SnapshotWriter::create(directory_, info());
    ASSERT_TRUE(writer) << writer.error().message;
    const std::vector<float> value = {first_value, -2.5F};
    const std::vector<float> state = {1, 2, 3, 4};
    ASSERT_TRUE(writer->add_dense(dense_spec(), value, state, 17));
    ASSERT_TRUE(writer->begin_sparse(sparse_spec(), 2));
    ASSERT_TRUE(writer->add_rows(test::encoded(rows())));
    ASSERT_TRUE(writer->end_sparse());
    const Status finished = writer->finish();
    ASSERT_TRUE(finished) << finished.error().message;
  }
  // Writes directory_ as a delta of a full snapshot with other rows; one of them does not change.
  void write_delta() {
    base_ = root_ + "/pass-00001";
    auto spec = sparse_spec();
    spec.mutable_table()->mutable_shrink()->set_decay(0.5F);
    const std::vector<float> value = {1, -2.5F};
    const std::vector<float> state = {1, 2, 3, 4};
    SnapshotInfo before = info();
    before.pass = 2;
    auto writer = SnapshotWriter::create(base_, before);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add_dense(dense_spec(), value, state, 17));
    ASSERT_TRUE(writer->begin_sparse(spec, 2));
    auto others = rows();
    others[0].value[0] = 7;
    others.push_back(
        {.id = 5, .marks = 1ULL << 32U, .value = {0, 0, 1}, .state = {0, 0, 0, 0, 0, 0}});
    others.back().score = {8, 4};
    others.push_back(others.back());
    others.back().id = 6;
    ASSERT_TRUE(writer->add_rows(test::encoded(others, true)));
    ASSERT_TRUE(writer->end_sparse());
    ASSERT_TRUE(writer->finish());

    auto base = base_of(base_);
    ASSERT_TRUE(base) << base.error().message;
    SnapshotInfo after = info();
    after.base = *std::move(base);
    auto delta = SnapshotWriter::create(directory_, after);
    ASSERT_TRUE(delta);
    ASSERT_TRUE(delta->add_dense(dense_spec(), value, state, 17));
    ASSERT_TRUE(delta->begin_sparse(spec, 2));
    ASSERT_TRUE(delta->add_rows(test::encoded(rows(), true)));
    const std::vector<std::uint64_t> removed{6, 77};
    ASSERT_TRUE(delta->add_removed(removed));
    ASSERT_TRUE(delta->end_sparse());
    const Status finished = delta->finish();
    ASSERT_TRUE(finished) << finished.error().message;
  }
  // Rewrites MANIFEST as somebody would who can compute its checksums: with `to` in place of the
  // first `from`, and unless `hashes` is false with size and SHA-256 of the files as they are now.
  static void forge(const std::string& directory, const std::string& from = "",
                    const std::string& to = "", bool hashes = true) {
    std::string text = content(directory + "/MANIFEST");
    text = text.substr(0, text.rfind("sha256 "));
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::string forged;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (hashes && line.starts_with("file ")) {
        const std::string name = line.substr(line.find(" name=") + 6);
        const std::string file = content(directory + "/" + name);
        line = fmt::format("file size={} sha256={} name={}", file.size(),
                           to_hex(sha256_of(as_bytes(file))), name);
      }
      forged += line + "\n";
    }
    forged += fmt::format("sha256 {}\n", to_hex(sha256_of(as_bytes(forged))));
    overwrite(directory + "/MANIFEST", forged);
  }
  // Entries of root_.
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(root_)) {
      found.insert(entry.path().filename());
    }
    return found;
  }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void overwrite(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }

  std::string root_;
  std::string directory_;
  std::string base_;  // of write_delta()
};

}  // namespace paddle::snapshot
