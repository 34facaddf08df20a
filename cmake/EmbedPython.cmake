# cmake -DFOLDER=... -DFILES="a.py;b.py" -DOUTPUT=... -P cmake/EmbedPython.cmake: writes a C++ source
# with the text of the module's files, relative to FOLDER, for cli/job/plan.cc.
set(rows "")
foreach(file IN LISTS FILES)
  file(READ ${FOLDER}/${file} text)
  string(APPEND rows "    {\"${file}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// The files of python/paddlectl as they were when paddlectl was built.
#include <string_view>
#include <utility>
#include <vector>

namespace paddle::cli {

extern const std::vector<std::pair<std::string_view, std::string_view>> kPythonModule = {
${rows}};

}  // namespace paddle::cli
")
