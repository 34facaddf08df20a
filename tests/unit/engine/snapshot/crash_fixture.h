// Fixture that saves small snapshots in a folder of memory, and checks what a loss of power leaves.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/snapshot/reader.h"
#include "engine/snapshot/resume_point.h"
#include "engine/snapshot/retention.h"
#include "engine/snapshot/verify.h"
#include "engine/snapshot/writer.h"
#include "tests/support/files/crash_states.h"
#include "tests/support/saved_row.h"

namespace paddle::snapshot {

class CrashFixture : public ::testing::Test {
 protected:
  static constexpr const char* kFolder = "/job";
  static constexpr std::uint64_t kSeed = 2026;

  // One thing that a job does. Once it returns, its outcome survives a crash.
  using Step = std::function<Status(FileSystem&)>;

  static std::string path_of(std::uint64_t pass) {
    return std::string(kFolder) + "/" + pass_name(pass);
  }

  // A folder without snapshots, which is durable.
  static test::Tree empty_folder() {
    test::MemoryFiles files;
    EXPECT_TRUE(files.make_directory(kFolder));
    return files.now();
  }

  // Saves pass `pass`; `version` is in every value, so that two of them are never equal.
  static Status save(FileSystem& files, std::uint64_t pass, float version,
                     std::optional<BaseSnapshot> base = {}) {
    constexpr std::size_t kValues = 160;
    SnapshotInfo info;
    info.optimizer.set_method("adagrad");
    info.optimizer.set_learning_rate(0.5F);
    info.pass = pass + 1;
    info.step = 10 * (pass + 1);
    info.trainer_cursors = {pass, 7};
    info.base = std::move(base);
    const bool is_delta = info.base.has_value();
    wire::ParameterSpec dense;
    dense.set_name("_fc.w0");
    dense.add_dims(kValues);
    dense.set_learning_rate(1);
    wire::ParameterSpec table;
    table.set_name("table");
    table.set_sparse(true);
    table.add_dims(0);
    table.add_dims(4);
    table.set_learning_rate(1);
    const std::vector<float> value(kValues, version);
    const std::vector<float> state(kValues, -version);
    std::vector<test::SavedRow> rows;
    for (std::uint64_t id = 0; id < (is_delta ? 9 : 30); ++id) {
      rows.push_back({.id = id, .value = {version, 0, 1, 2}, .state = {3, 4, 5, version}});
    }
    PADDLE_TRY(auto writer, SnapshotWriter::create(path_of(pass), info, files));
    PADDLE_TRY_STATUS(writer.add_model_file({"job.toml", fmt::format("# {}\n", version)}));
    PADDLE_TRY_STATUS(writer.add_model_file({"model/job.toml", fmt::format("seed = {}", version)}));
    PADDLE_TRY_STATUS(writer.add_dense(dense, value, state, pass));
    PADDLE_TRY_STATUS(writer.begin_sparse(table, 1));
    PADDLE_TRY_STATUS(writer.add_rows(test::encoded(rows)));
    if (is_delta) PADDLE_TRY_STATUS(writer.add_removed(std::vector<std::uint64_t>{28, 29}));
    PADDLE_TRY_STATUS(writer.end_sparse());
    return writer.finish();
  }

  static Status save_delta(FileSystem& files, std::uint64_t pass, float version,
                           std::uint64_t base) {
    PADDLE_TRY(BaseSnapshot before, base_of(path_of(base), files));
    return save(files, pass, version, std::move(before));
  }

  // The snapshot that a loader takes, by its pass and a hash of its contents, "none" or an error;
  // then the names of those that were moved away.
  static std::string newest(FileSystem& files) {
    if (!files.exists(kFolder)) return "none";
    if (const Status finished = finish_interrupted(kFolder, files); !finished) {
      return "error: " + finished.error().message;
    }
    const auto found = take_newest_whole(kFolder, files);
    if (!found) return "error: " + found.error().message;
    return (*found ? contents(**found) : "none") + earlier(files);
  }

  // The same when all of `tree` is durable.
  static std::string outcome(const test::Tree& tree) {
    test::MemoryFiles files(tree);
    return newest(files);
  }

  static std::string earlier(FileSystem& files) {
    std::string text;
    for (int number = 1;; ++number) {
      const std::string folder = fmt::format("{}/earlier-{}", kFolder, number);
      const auto names = snapshot_names(folder, files);
      if (!names) return text;
      text += "\n" + folder + ":";
      for (const std::string& name : *names) {
        const Verdict verdict = verify(folder + "/" + name, files);
        text += " " + (verdict.error ? verdict.error->message : name);
      }
    }
  }

  static std::string contents(const SnapshotReader& reader) {
    std::string bits = encode_manifest(reader.manifest());
    const auto add = [&bits](auto values) {
      const ByteSpan bytes = bytes_of(values);
      bits.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    std::vector<float> value;
    std::vector<float> state;
    std::uint64_t updates = 0;
    const Status dense = reader.read_dense("_fc.w0", value, state, updates);
    if (!dense) return "error: " + dense.error().message;
    add(std::span<const float>(value));
    add(std::span<const float>(state));
    const Status sparse = reader.read_rows("table", [&](const table::Row& row) -> Status {
      add(std::span(&row.id, 1));
      add(row.value);
      add(row.state);
      return {};
    });
    if (!sparse) return "error: " + sparse.error().message;
    return fmt::format("pass {} with SHA-256 {}", reader.info().pass,
                       to_hex(sha256_of(as_bytes(bits))));
  }

  // Sets up with steps that no crash interrupts.
  void given(const std::vector<Step>& steps) {
    test::MemoryFiles files(before_);
    for (const Step& step : steps) {
      const Status done = step(files);
      ASSERT_TRUE(done) << done.error().message;
    }
    before_ = files.now();
  }

  static Step saves(std::uint64_t pass, float version) {
    return [=](FileSystem& files) { return save(files, pass, version); };
  }
  static Step saves_delta(std::uint64_t pass, float version, std::uint64_t base) {
    return [=](FileSystem& files) { return save_delta(files, pass, version, base); };
  }
  static Step keeps(std::uint64_t pass, std::uint32_t count) {
    return [=](FileSystem& files) { return keep_newest(kFolder, pass, count, "", files); };
  }
  Step damages(const std::string& path) {
    ++damaged_;
    return [=](FileSystem& files) -> Status {
      static_cast<test::MemoryFiles&>(files).write(path, "damaged");
      return {};
    };
  }
  static Step resumes() {
    return [](FileSystem& files) -> Status {
      PADDLE_TRY_STATUS(finish_interrupted(kFolder, files));
      const auto found = take_newest_whole(kFolder, files);
      return found ? Status() : Status(found.error());
    };
  }
  static Step sets_aside() {
    return [](FileSystem& files) -> Status {
      const auto folder = set_snapshots_aside(kFolder, files);
      if (!folder) return folder.error();
      return {};
    };
  }

  // Loads the states that a crash after the first `end` operations may leave, or `most` of them:
  // what is taken must be allowed.
  void check_moment(const test::MemoryFiles& files, std::size_t end, std::size_t most,
                    const std::set<std::string>& allowed) {
    const std::string moment =
        end == 0 ? "before anything"
                 : fmt::format("{}, after '{}'", end, files.operations()[end - 1].what);
    SCOPED_TRACE(fmt::format("a crash at moment {}", moment));
    std::uint64_t expected = 0;
    for (const std::string& each : allowed) expected = hash_combine(expected, stable_hash(each));
    test::visit_crash_states(files, end, most, kSeed, [&](const test::Tree& tree) {
      const std::size_t hash = std::hash<std::string>()(tree.text());
      states_.insert(hash);
      if (HasFailure() || !checked_.insert(hash_combine(hash, expected)).second) return;
      check_state(files, tree, allowed);
    });
  }

  void check_state(const test::MemoryFiles& crashed, const test::Tree& tree,
                   const std::set<std::string>& allowed) {
    test::MemoryFiles files = crashed.with(tree);
    ASSERT_TRUE(files.make_directories(kFolder));
    const std::string found = newest(files);
    EXPECT_TRUE(allowed.contains(found)) << "found " << found << "\n" << listing(tree);
    // No snapshot is damaged that was whole before, not even one that is to be removed.
    const auto names = snapshot_names(kFolder, files);
    ASSERT_TRUE(names);
    for (const std::string& name : *names) {
      const Verdict verdict = verify(std::string(kFolder) + "/" + name, files);
      EXPECT_FALSE(verdict.error) << verdict.error->message << "\n" << listing(tree);
    }
    // Training goes on: nothing that the crash left is in the way of the next save, and all of it
    // goes in the end.
    const Status saved = save(files, 50, 50);
    ASSERT_TRUE(saved) << saved.error().message << "\n" << listing(tree);
    EXPECT_TRUE(newest(files).starts_with("pass 51 "));
    const Status kept = keep_newest(kFolder, 50, 1, "", files);
    ASSERT_TRUE(kept) << kept.error().message << "\n" << listing(tree);
    const auto left = files.list(kFolder);
    ASSERT_TRUE(left);
    std::size_t damaged = 0;
    for (const std::string& name : *left) {
      const bool is_damaged = name.find(kDamaged) != name.npos;
      if (is_damaged) ++damaged;
      EXPECT_TRUE(name == pass_name(50) || name.starts_with("earlier-") || is_damaged)
          << name << " is left\n"
          << listing(tree);
    }
    EXPECT_EQ(damaged, damaged_) << listing(tree);
  }

  // The names in the folder, and those in each.
  static std::string listing(const test::Tree& tree) {
    test::MemoryFiles files(tree);
    std::string text;
    const auto names = files.list(kFolder);
    if (!names) return text;
    for (const std::string& name : *names) {
      text += name + ":";
      if (const auto inside = files.list(std::string(kFolder) + "/" + name)) {
        for (const std::string& each : *inside) text += " " + each;
      }
      text += "\n";
    }
    return text;
  }

  test::Tree before_ = empty_folder();
  std::size_t damaged_ = 0;          // snapshots in it
  std::set<std::size_t> states_;     // by hash
  std::set<std::uint64_t> checked_;  // with what was allowed
};

}  // namespace paddle::snapshot
