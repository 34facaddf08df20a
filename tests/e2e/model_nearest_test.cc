// Words that `paddle nearest` finds, and those that gensim finds.
#include <regex>

#include <gtest/gtest.h>

#include "tests/e2e/model_life_fixture.h"

namespace paddle::test {
namespace {

TEST_F(ModelLife, WordsAreNearestToThoseOfTheirTopic) {
  folder_.write("text.txt", topical_text());
  train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=2");
  const std::string nearest = "paddle nearest --snapshot=word2vec-save/pass-00001 ";
  const auto lines = lines_of(succeed(nearest + "--count=3 t1w1 t5w0").out);
  ASSERT_EQ(lines.size(), 2U);
  const std::regex line(R"((t\dw\d) +(  t\dw\d \(-?[01]\.\d\d\)){3})");
  EXPECT_TRUE(std::regex_match(lines[0], line)) << lines[0];
  EXPECT_TRUE(lines[0].starts_with("t1w1 ") && lines[1].starts_with("t5w0 "));
  EXPECT_EQ(lines[1], lines_of(succeed(nearest + "--count=3 t5w0").out).front());

  const Ran json = succeed(nearest + "--count=1 --json t1w1");
  std::smatch parts;
  ASSERT_TRUE(std::regex_search(json.out, parts, std::regex(R"("word":"t1w1","id":(\d+),)")));
  const std::string id = parts[1];
  EXPECT_NE(json.out.find(R"({"parameter":"_proj","queries":[{"word":"t1w1")"), json.out.npos);
  const Ran by_id = succeed(nearest + "--count=1 --json --ids " + id);
  EXPECT_EQ(by_id.out, std::regex_replace(json.out, std::regex(R"("word":"\w+",)"), ""));

  fails(nearest, 2, "nearest needs words", "paddle nearest --snapshot=");
  fails(nearest + "t1w1 t1w11", 2, "'t1w11' is not in the dictionary", "did you mean 't1w1'?");
  fails(nearest + "t1w1 '<unk>'", 6, "'<unk>' has no row in '_proj'",
        "no record of the training data contains it");
  fails(nearest + "--ids t1w1", 2, "'t1w1' is not the id of a row", "");
  fails(nearest + "--parameter=_prj t1w1", 2, "no parameter '_prj'", "did you mean '_proj'?");
  fails(nearest + "--parameter=_hidden.w0 t1w1", 2, "'t1w1' is not the id of a row", "");
  succeed(nearest + "--parameter=_hidden.w0 5");
}

TEST_F(ModelLife, GensimFindsTheSameNeighbours) {
  if (shell("/usr/bin/python3 -c 'import gensim'").code != 0) GTEST_SKIP() << "no python3-gensim";
  folder_.write("text.txt", topical_text());
  train("word2vec", "--keep-tokens --minimum 0 text.txt", "--num_passes=1");
  const std::string saved = "--snapshot=word2vec-save/pass-00000";
  succeed("paddle export " + saved + " --parameter=_proj --format=vec >words.vec");
  succeed("paddle nearest " + saved + " --json t0w0 t3w2 t6w5 >nearest.json");
  succeed(
      "/usr/bin/python3 -c 'import json; from gensim.models import KeyedVectors as K\n"
      "words = K.load_word2vec_format(\"words.vec\")\n"
      "for query in json.load(open(\"nearest.json\"))[\"queries\"]:\n"
      "  theirs = words.most_similar(query[\"word\"], topn=10)\n"
      "  assert len(query[\"nearest\"]) == 10\n"
      "  for ours, (word, cosine) in zip(query[\"nearest\"], theirs):\n"
      "    assert ours[\"word\"] == word and abs(ours[\"cosine\"] - cosine) < 1e-5, query'");
}

}  // namespace
}  // namespace paddle::test
