#include "cli/job/text_template.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

TEST(FillWords, ReplacesEachWordOnce) {
  EXPECT_EQ(*fill_words("f", "{{a}}-{{b}}{{a}}.", {{"a", "{{b}}"}, {"b", "2"}}), "{{b}}-2{{b}}.")
      << "a value is not searched for words";
  EXPECT_EQ(*fill_words("f", "no {word}", {}), "no {word}");
}

TEST(FillWords, NamesTheLineOfAWordWithoutAValue) {
  EXPECT_EQ(fill_words("f.txt", "1\n{{a}}\n3 {{\x1b}}", {{"a", "x\ny\nz"}}).error().message,
            "f.txt:3: {{\\x1b}} is unknown")
      << "lines of the file, not of the result";
  EXPECT_FALSE(fill_words("f", "{{a", {{"a", "x"}}));
}

}  // namespace
}  // namespace paddle::cli
