// Pushes to a real agent: the bytes that move, the files that appear, and breaks in the middle.
#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <random>
#include <utility>

#include "tests/unit/remote/client/push_fixture.h"

namespace paddle::remote {
namespace {

TEST_F(PushTest, ASecondJobMovesNothingAndSharesTheFiles) {
  auto agent = connect_agent();
  const std::string large = write_file(folder_ + "/large", test::noise(3U << 20U, 1));
  const std::string small = write_file(folder_ + "/small", "small");
  ASSERT_TRUE(push(*agent, {{large, "jobs/a/large"}, {small, "jobs/a/small"}}));
  const auto second = push(*connect_agent(), {{large, "jobs/b/large"}, {small, "jobs/b/small"}});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->files_sent, 0U);
  EXPECT_EQ(second->bytes_on_wire, 0U);
  EXPECT_EQ(inode_of(at("jobs/a/large")), inode_of(at("jobs/b/large")));
  EXPECT_EQ(file_content(at("jobs/b/large")), file_content(large));
  EXPECT_EQ(files_below(objects()), 2U);
  ASSERT_TRUE(agent->remove("jobs/a"));
  EXPECT_EQ(files_below(objects()), 2U) << "the other job uses them";
  ASSERT_TRUE(agent->remove("jobs/b"));
  EXPECT_EQ(files_below(objects()), 0U) << "no job uses them";
}

TEST_F(PushTest, WhatAnEarlierPushPlacedAndThisOneLacksGoesAndNothingElseDoes) {
  auto agent = connect_agent();
  PushSource source;
  const std::string local = write_file(folder_ + "/f", "content");
  const std::string work = "jobs/a/workspace";
  const auto push_these = [&](const std::vector<std::string>& names) {
    std::vector<PushItem> items;
    for (const std::string& name : names) items.push_back({local, work + "/" + name});
    items.push_back({"", work + "/link", false, names[0]});
    const auto pushed = agent->push(items, source, nullptr, work);
    ASSERT_TRUE(pushed) << pushed.error().message;
  };
  push_these({"kept", "gone", "deep/er/gone", "deep/kept", "replaced"});
  write_file(at(work + "/made"), "by the job");
  fs::remove(at(work + "/replaced"));
  write_file(at(work + "/replaced"), "by the job");
  push_these({"kept", "deep/kept"});
  EXPECT_EQ(files_below(at(work)), 5U);
  EXPECT_FALSE(fs::exists(at(work + "/gone")));
  EXPECT_FALSE(fs::exists(at(work + "/deep/er")));
  EXPECT_EQ(file_content(at(work + "/made")), "by the job");
  EXPECT_EQ(file_content(at(work + "/replaced")), "by the job");
  push_these({"deep"});
  EXPECT_EQ(file_content(at(work + "/deep")), "content") << "a file where a folder was";
  ASSERT_TRUE(push(*agent, {{local, work + "/more"}})) << "a push that keeps all";
  EXPECT_EQ(file_content(at(work + "/deep")), "content");
  const auto outside = agent->push({{local, work + "/x"}}, source, nullptr, "../elsewhere");
  EXPECT_FALSE(outside) << "a folder that is not below root";
}

TEST_F(PushTest, CopiesLeftBehindGoWithTheNextPushButNotThoseInUse) {
  const std::string local = write_file(folder_ + "/f", "content");
  auto killed = connect_agent();
  ASSERT_TRUE(push(*killed, {{local, ".paddlectl-copies/1-1/f"}}));
  auto other = connect_agent();
  ASSERT_TRUE(push(*other, {{local, ".paddlectl-copies/2-2/f"}}));
  ASSERT_TRUE(push(*connect_agent(), {{local, "jobs/a/f"}}));
  EXPECT_TRUE(fs::exists(at(".paddlectl-copies/1-1/f")) &&
              fs::exists(at(".paddlectl-copies/2-2/f")))
      << "both are at work";
  killed.reset();
  other.reset();
  const auto only_lock = [&] {
    return std::distance(fs::directory_iterator(at(".paddlectl-copies")),
                         fs::directory_iterator()) == 1;
  };
  // An agent ends some time after its channel.
  for (int i = 0; i < 500 && !only_lock(); ++i) {
    ASSERT_TRUE(push(*connect_agent(), {{local, "jobs/a/f"}}));
    ::poll(nullptr, 0, 10);
  }
  EXPECT_TRUE(only_lock());
  fs::create_directories(at(".paddlectl-copies/3-3"));
  CopyTree tree;
  ASSERT_TRUE(connect_agent()->import_from(local, ".paddlectl-copies/4-4", tree));
  EXPECT_FALSE(fs::exists(at(".paddlectl-copies/3-3"))) << "get clears too";
  EXPECT_TRUE(fs::exists(at(".paddlectl-copies/4-4/1")));
}

TEST_F(PushTest, AContentStandsForThatOfTheFile) {
  const std::string local = write_file(folder_ + "/job.toml", "as the user wrote it");
  fs::permissions(local, fs::perms(0640));
  const std::string large = test::noise(3U << 20U, 1);
  for (const std::string& content : {std::string("other"), std::string(), large}) {
    PushItem item{local, "jobs/a/job.toml"};
    item.content = content;
    const auto pushed = push(*connect_agent(), {item});
    ASSERT_TRUE(pushed) << pushed.error().message;
    EXPECT_TRUE(file_content(at("jobs/a/job.toml")) == content) << content.size();
    EXPECT_EQ(fs::status(at("jobs/a/job.toml")).permissions(), fs::perms(0440));
  }
  EXPECT_EQ(file_content(local), "as the user wrote it");
  ASSERT_TRUE(push(*connect_agent(), {{local, "jobs/a/job.toml"}}));
  EXPECT_EQ(file_content(at("jobs/a/job.toml")), "as the user wrote it");
  PushItem absent{folder_ + "/absent", "jobs/a/x"};
  absent.content = "x";
  EXPECT_FALSE(push(*connect_agent(), {absent}));
}

TEST_F(PushTest, AContentNeedsNoFileHere) {
  PushItem first{"", "jobs/a/python/first.py"}, second{"", "jobs/a/python/second.py"};
  first.content = "one = 1\n";
  second.content = "two = 2\n";
  const auto pushed = push(*connect_agent(), {first, second});
  ASSERT_TRUE(pushed) << pushed.error().message;
  EXPECT_EQ(file_content(at(first.remote_path)), *first.content);
  EXPECT_EQ(file_content(at(second.remote_path)), *second.content);
  EXPECT_EQ(fs::status(at(first.remote_path)).permissions(), fs::perms(0444));
}

TEST_F(PushTest, AFileWhoseSizeSaysNothingIsReadToItsEnd) {
  // Those of /proc say 0, those of /sys a page, whatever is in them.
  std::vector<std::string> sources = {"/proc/version", "/proc/self/maps", "/proc/filesystems"};
  if (fs::exists("/sys/kernel/mm/transparent_hugepage/enabled"))
    sources.push_back("/sys/kernel/mm/transparent_hugepage/enabled");
  auto agent = connect_agent();
  for (const std::string& local : sources) {
    const auto pushed = push(*agent, {{local, "jobs/a/x"}});
    ASSERT_TRUE(pushed) << local << ": " << pushed.error().message;
    const std::string there = file_content(at("jobs/a/x"));
    EXPECT_FALSE(there.empty()) << local;
    if (local != "/proc/self/maps") {
      EXPECT_EQ(there, file_content(local));
    }
    fs::remove_all(at("jobs/a"));
  }
  const std::string empty = write_file(folder_ + "/empty", "");
  ASSERT_TRUE(push(*agent, {{empty, "jobs/a/empty"}}));
  EXPECT_TRUE(fs::is_empty(at("jobs/a/empty")));
}

TEST_F(PushTest, AFileIsNotReadThroughALinkWhereNoneWas) {
  write_file(folder_ + "/secret", "content");
  fs::create_directories(folder_ + "/site");
  fs::create_symlink(folder_ + "/secret", folder_ + "/site/a");
  fs::create_symlink(folder_, folder_ + "/site/b");
  auto agent = connect_agent();
  for (const std::string& local : {folder_ + "/site/a", folder_ + "/site/b/secret"}) {
    const auto refused = push(*agent, {{local, "jobs/a/x", false, "", true}});
    ASSERT_FALSE(refused) << local;
    EXPECT_NE(refused.error().message.find("replaced by a link"), std::string::npos)
        << refused.error().message;
    EXPECT_TRUE(push(*agent, {{local, "jobs/a/x"}})) << "where links may lead to it";
  }
}

TEST_F(PushTest, HolesTakeNoRoomOnTheNode) {
  // Data at the beginning and in the middle of holes of many chunks.
  const std::string local = write_file(folder_ + "/image", test::noise(5000, 7));
  std::filesystem::resize_file(local, 40U << 20U);
  {
    std::fstream file(local, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp((20U << 20U) + 100);
    file << "in the middle";
  }
  std::filesystem::resize_file(local, (60U << 20U) + 77);
  auto agent = connect_agent();
  const auto pushed = push(*agent, {{local, "jobs/a/image"}});
  ASSERT_TRUE(pushed) << pushed.error().message;
  struct stat there {};
  ASSERT_EQ(::stat(at("jobs/a/image").c_str(), &there), 0);
  EXPECT_EQ(there.st_size, (60 << 20) + 77);
  EXPECT_LT(there.st_blocks * 512, 2 << 20);
  EXPECT_EQ(sha256_of_file(at("jobs/a/image")).value(), sha256_of_file(local).value());
  EXPECT_LT(pushed->bytes_sent, 4U << 20U) << "nor are they sent";
}

TEST_F(PushTest, AFileThatSomebodyWroteToIsPushedAgain) {
  auto agent = connect_agent();
  const std::string local = write_file(folder_ + "/a", "as it should be");
  ASSERT_TRUE(push(*agent, {{local, "jobs/a/a"}}));
  ASSERT_EQ(::chmod(at("jobs/a/a").c_str(), 0600), 0);
  write_file(at("jobs/a/a"), "as it SHOULD be");
  const auto again = push(*agent, {{local, "jobs/a/a"}});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->files_sent, 1U);
  EXPECT_EQ(file_content(at("jobs/a/a")), "as it should be");
}

TEST_F(PushTest, OneMegabyteChangedInALargeFileMovesLittle) {
  auto agent = connect_agent();
  std::string content = test::noise(24U << 20U, 2);
  const std::string local = write_file(folder_ + "/large", content);
  ASSERT_TRUE(push(*agent, {{local, "jobs/a/large"}}));
  content.replace(11U << 20U, 1U << 20U, test::noise(1U << 20U, 3));
  write_file(local, content);
  const auto again = push(*agent, {{local, "jobs/a/large"}});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->files_sent, 1U);
  EXPECT_LE(again->bytes_on_wire, 3U << 20U);
  EXPECT_TRUE(file_content(at("jobs/a/large")) == content);
}

TEST_F(PushTest, AnyEditArrives) {
  auto agent = connect_agent();
  std::mt19937 random(4);
  std::string content = test::noise(11U << 20U, 5);
  const std::string local = folder_ + "/edited";
  for (unsigned round = 0; round < 25; ++round) {
    const std::size_t place = random() % (content.size() + 1);
    const std::string piece = test::noise(random() % (600U << 10U), 100 + round);
    switch (round % 5) {
      case 0:
        content.insert(place, piece);
        break;
      case 1:
        content.erase(place, piece.size());
        break;
      case 2:
        content.replace(place, piece.size(), piece);
        break;
      case 3:
        content += piece;
        break;
      default:
        content.resize(content.size() - std::min(content.size(), piece.size()));
    }
    write_file(local, content);
    const auto pushed = push(*agent, {{local, "jobs/a/edited"}});
    ASSERT_TRUE(pushed) << pushed.error().message;
    EXPECT_LE(pushed->bytes_sent, round == 0 ? content.size() : piece.size() + (2U << 20U));
    ASSERT_TRUE(file_content(at("jobs/a/edited")) == content) << "round " << round;
  }
}

TEST_F(PushTest, CompressesWhatGetsSmaller) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "line " + std::to_string(i % 100) + "\n";
  const auto pushed =
      push(*connect_agent(), {{write_file(folder_ + "/text", text), "jobs/a/text"}});
  ASSERT_TRUE(pushed) << pushed.error().message;
  EXPECT_EQ(pushed->bytes_sent, text.size());
  EXPECT_LT(pushed->bytes_on_wire, text.size() / 4);
  EXPECT_EQ(file_content(at("jobs/a/text")), text);
}

TEST_F(PushTest, ABrokenPushShowsNothingAndTheNextSendsTheRest) {
  const std::string large = test::noise(9U << 20U, 6);
  std::vector<PushItem> items = {{write_file(folder_ + "/large", large), "jobs/a/large"}};
  std::uint64_t total = large.size();
  for (int i = 0; i < 40; ++i) {
    const std::string name = "small-" + std::to_string(i);
    items.push_back(
        {write_file(folder_ + "/" + name, test::noise(40'000, 50 + i)), "jobs/a/" + name});
    total += 40'000;
  }
  for (int cut = 0; cut < 12; ++cut) {
    auto agent = connect_agent();
    int calls = 0;
    std::uint64_t arrived = 0;
    const auto broken = push(*agent, items, [&](std::uint64_t, std::uint64_t more) {
      arrived += more;
      if (calls++ != cut) return true;
      for (const int pid : processes_using(folder_)) ::kill(pid, SIGKILL);
      return true;
    });
    EXPECT_FALSE(broken) << cut;
    EXPECT_FALSE(fs::exists(at("jobs/a/large"))) << cut;
    EXPECT_FALSE(fs::exists(at("jobs/a/small-0"))) << cut;
    agent = connect_agent();
    const auto rest = push(*agent, items);
    ASSERT_TRUE(rest) << rest.error().message;
    EXPECT_LE(rest->bytes_sent, total - arrived) << cut;
    ASSERT_TRUE(file_content(at("jobs/a/large")) == large) << cut;
    for (int i = 0; i < 40; ++i) {
      const std::string name = "small-" + std::to_string(i);
      ASSERT_TRUE(file_content(at("jobs/a/" + name)) == file_content(folder_ + "/" + name));
    }
    ASSERT_TRUE(agent->remove("jobs"));
  }
}

TEST_F(PushTest, LinksAndModesAreKept) {
  auto agent = connect_agent();
  const std::string local = write_file(folder_ + "/run", "#!/bin/sh\n");
  ASSERT_EQ(::chmod(local.c_str(), 0755), 0);
  const std::vector<PushItem> items = {{local, "jobs/a/w/run"},
                                       {"", "jobs/a/w/sub/link", false, "../run"}};
  ASSERT_TRUE(push(*agent, items));
  EXPECT_EQ(fs::read_symlink(at("jobs/a/w/sub/link")).string(), "../run");
  struct stat info {};
  ASSERT_EQ(::stat(at("jobs/a/w/sub/link").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0555U);
  for (const std::string target : {"/etc/passwd", "../../../../x", "a/../../../../../x", ""}) {
    if (target.empty()) continue;
    EXPECT_FALSE(push(*agent, {{"", "jobs/a/w/bad", false, target}})) << target;
    EXPECT_FALSE(fs::is_symlink(at("jobs/a/w/bad"))) << target;
  }
}

TEST_F(PushTest, AFileAndAFolderChangePlaces) {
  auto agent = connect_agent();
  const std::string local = write_file(folder_ + "/x", "x");
  ASSERT_TRUE(push(*agent, {{local, "jobs/a/was-file"}}));
  ASSERT_TRUE(push(*agent, {{local, "jobs/a/was-file/inside"}}));
  EXPECT_EQ(file_content(at("jobs/a/was-file/inside")), "x");
  const auto refused = push(*agent, {{local, "jobs/a/was-file"}});
  ASSERT_FALSE(refused) << "a folder may hold what a job wrote";
  EXPECT_NE(refused.error().hint.find("remove the job"), std::string::npos);
  EXPECT_EQ(file_content(at("jobs/a/was-file/inside")), "x");
}

TEST_F(PushTest, FortyHostileNamesWriteNothing) {
  auto agent = connect_agent();
  const std::string local = write_file(folder_ + "/x", "x");
  fs::create_directory(folder_ + "/outside");
  ASSERT_TRUE(push(*agent, {{local, "jobs/a/file"}}));
  fs::create_symlink(folder_ + "/outside", at("jobs/a/link"));
  fs::create_symlink("..", at("jobs/up"));
  std::vector<std::string> names = {"",
                                    ".",
                                    "..",
                                    "/",
                                    "//",
                                    "/etc/x",
                                    "//etc/x",
                                    "../x",
                                    "../../x",
                                    "a/..",
                                    "a/../x",
                                    "a/../../x",
                                    "./x",
                                    "a/./x",
                                    "a//x",
                                    "a/",
                                    "/a/",
                                    "..//x",
                                    ".../../x",
                                    "jobs/..",
                                    "jobs/../..",
                                    "jobs/../../outside/x",
                                    "jobs/a/link/x",
                                    "jobs/a/link/../x",
                                    "jobs/up/../../x",
                                    "jobs/up/up/x",
                                    "jobs/a/link/deep/er/x",
                                    "store",
                                    "store/index",
                                    "store/objects/x",
                                    "store/lock",
                                    "store/../x",
                                    std::string("nul\0x", 5),
                                    std::string("\0", 1),
                                    std::string("a/\0/x", 5),
                                    std::string("../\0", 4),
                                    std::string(256, 'n'),
                                    "a/" + std::string(300, 'n') + "/x",
                                    std::string(5000, 'n'),
                                    folder_ + "/outside/x"};
  std::string deep = "d";
  while (deep.size() < 5000) deep += "/d";
  names.push_back(deep);
  ASSERT_GE(names.size(), 40U);
  for (const std::string& name : names) {
    const auto pushed = push(*agent, {{local, name}});
    EXPECT_FALSE(pushed) << name;
    EXPECT_TRUE(fs::is_empty(folder_ + "/outside")) << name;
  }
  EXPECT_FALSE(push(*agent, {{local, "jobs/a/twice"}, {local, "jobs/a/twice"}}));
  EXPECT_FALSE(push(*agent, {{local, "jobs/a/y"}, {local, "jobs/a/y/z"}}));
  EXPECT_FALSE(push(*agent, {{local, "jobs/a/y/z"}, {local, "jobs/a/y"}}));
  EXPECT_FALSE(fs::exists(at("jobs/a/twice")));
  // Strange, but names below root all the same: they arrive as they are.
  const std::vector<std::string> odd = {"jobs/o/new\nline", "jobs/o/\x1b[2J", "jobs/o/CASE",
                                        "jobs/o/case",      "jobs/o/-rf",     "jobs/o/a b"};
  for (const std::string& name : odd) {
    const auto pushed = push(*agent, {{local, name}});
    ASSERT_TRUE(pushed) << pushed.error().message;
    EXPECT_EQ(file_content(at(name)), "x") << name;
  }
  EXPECT_TRUE(fs::is_empty(folder_ + "/outside"));
  EXPECT_FALSE(fs::exists(fs::path(node_.root).parent_path() / "x"));
}

TEST_F(PushTest, APushThatIsBrokenOffLeavesNothingToSeeAndGoesOnWithTheRest) {
  const auto agent = connect_agent();
  const std::string large = test::noise(12'000'000, 77);
  const std::vector<PushItem> items = {{write_file(folder_ + "/large", large), "jobs/a/large"}};
  std::uint64_t arrived = 0;
  const auto broken = push(*agent, items, [&](std::uint64_t, std::uint64_t more) {
    arrived += more;
    return arrived == 0;
  });
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Errc::kInterrupted);
  EXPECT_FALSE(fs::exists(at("jobs/a/large")));
  const auto rest = push(*agent, items);  // by the same connection
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_GT(arrived, 0U);
  EXPECT_LE(rest->bytes_sent, large.size() - arrived);
  EXPECT_TRUE(file_content(at("jobs/a/large")) == large);
}

TEST_F(PushTest, AFileThatChangesWhileItIsPushedIsNamedAndPushedAgain) {
  const auto agent = connect_agent();
  const std::string local = folder_ + "/changing";
  const auto append = [&] { std::ofstream(local, std::ios::app) << "more"; };
  const auto rename_over = [&] {
    write_file(local + ".new", "another file");
    fs::rename(local + ".new", local);
  };
  const std::pair<std::string, std::function<void()>> changes[] = {
      {"grows", append},
      {"is cut", [&] { fs::resize_file(local, 3); }},
      {"is written with as many bytes", [&] { write_file(local, test::noise(100'000, 2)); }},
      {"is replaced", rename_over},
      {"is only touched", [&] { fs::last_write_time(local, fs::file_time_type::clock::now()); }}};
  std::uint64_t seed = 1000;  // the store keeps what has arrived
  for (const auto& [what, change] : changes) {
    // Both a file of one piece and one of many chunks, some of which are on their way already.
    for (const std::size_t bytes : {std::size_t{100'000}, std::size_t{12'000'000}}) {
      write_file(local, test::noise(bytes, ++seed));
      fs::last_write_time(local, fs::file_time_type::clock::now() - std::chrono::hours(1));
      bool is_changed = false;
      const auto on_the_way = [&](std::uint64_t planned, std::uint64_t arrived) {
        const bool is_time = bytes > 1'000'000 ? arrived > 0 : planned > 0;
        if (is_time && !std::exchange(is_changed, true)) change();
        return true;
      };
      const auto pushed = push(*agent, {{local, "jobs/a/f"}}, on_the_way);
      ASSERT_TRUE(is_changed) << what << " " << bytes;
      ASSERT_FALSE(pushed) << what << " " << bytes;
      EXPECT_EQ(pushed.error().code, Errc::kData) << pushed.error().message;
      EXPECT_NE(pushed.error().message.find(local + " changed while it was pushed"),
                std::string::npos)
          << pushed.error().message;
      EXPECT_EQ(pushed.error().hint, "push again");
      EXPECT_FALSE(fs::exists(at("jobs/a/f"))) << what << " " << bytes;
      const auto again = push(*agent, {{local, "jobs/a/f"}});  // by the same connection
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_TRUE(file_content(at("jobs/a/f")) == file_content(local)) << what << " " << bytes;
      ASSERT_TRUE(agent->remove("jobs/a"));
    }
  }
}

TEST_F(PushTest, TheHashCacheKeepsNothingOfAFileThatHasJustChanged) {
  HashCache cache(folder_ + "/cache");
  constexpr std::int64_t kChanged = 1'000'000'000'000;
  const FileStamp stamp{10, kChanged - 5'000'000'000, kChanged, 1, 1};
  cache.put("a", stamp, kChanged + 1'900'000'000, {});
  EXPECT_FALSE(cache.find("a", stamp)) << "another change may have the same stamp";
  cache.put("a", stamp, kChanged + 2'000'000'000, {});
  EXPECT_TRUE(cache.find("a", stamp));
  EXPECT_FALSE(cache.find("b", stamp));
}

TEST_F(PushTest, TheHashCacheSparesTheReadingAndNoticesAChange) {
  const std::string local = write_file(folder_ + "/a", test::noise(1U << 20U, 7));
  const std::string file = folder_ + "/cache/hashes";
  struct stat info {};
  ASSERT_EQ(::stat(local.c_str(), &info), 0);
  const FileStamp stamp = stamp_of(info);
  FileContent content;
  content.id[0] = std::byte{42};
  content.chunks = {{content.id, 512U << 10U}, {content.id, 512U << 10U}};
  HashCache cache(file);
  cache.put(local, stamp, stamp.changed_ns + 1'000'000'000, content);
  EXPECT_FALSE(cache.find(local, stamp)) << "too fresh to be believed";
  cache.put(local, stamp, stamp.changed_ns + 3'000'000'000, content);
  ASSERT_TRUE(cache.save());
  HashCache again(file);
  ASSERT_TRUE(again.find(local, stamp));
  EXPECT_EQ(again.find(local, stamp)->chunks.size(), 2U);
  FileStamp later = stamp;
  ++later.changed_ns;
  EXPECT_FALSE(again.find(local, later));
  PushSource source(file);
  const auto described = source.describe({{local, "f"}});
  ASSERT_TRUE(described);
  EXPECT_EQ((*described)[0]->content.id, content.id) << "it was read again";
  std::string text = file_content(file);
  text[text.size() / 2] ^= 1;
  write_file(file, text);
  EXPECT_FALSE(HashCache(file).find(local, stamp)) << "damaged";
}

}  // namespace
}  // namespace paddle::remote
