# Writes the file FROM as the C++ source TO, in which it is a text: tally::http::page().
file(READ "${FROM}" text)
if(text MATCHES "\\)tally_page\"")
  message(FATAL_ERROR "${FROM}: ')tally_page\"' would end the text")
endif()
file(WRITE "${TO}" "#include \"http/answers.h\"

namespace tally::http {

std::string_view page() { return R\"tally_page(${text})tally_page\"; }

}  // namespace tally::http
")
