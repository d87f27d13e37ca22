package pando.spark

/** Names and texts as they stand in ClickHouse's SQL. */
object SqlText {

  /** Returns an identifier. */
  def quoteName(name: String): String = "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

  /** Returns the name of a table with its database. */
  def quoteTable(database: String, table: String): String = s"${quoteName(database)}.${quoteName(table)}"

  /** Returns a literal. */
  def quoteText(text: String): String = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

  /** Returns an expression between brackets; a comment at its end ends there. */
  def bracket(expression: String): String = s"($expression\n)"

  /** Returns the condition that holds where all of these do; blank ones always hold. */
  def and(conditions: Seq[String]): String = conditions.filter(_.trim.nonEmpty).map(bracket).mkString(" AND ")

  /** Returns the value of a setting: a number as it is, another text as a literal. */
  def formatSetting(value: String): String =
    if (value.matches("-?\\d+(\\.\\d+)?")) value
    else if (value.matches("(?i)true|false")) (if (value.equalsIgnoreCase("true")) "1" else "0")
    else quoteText(value)

  /** Returns the text of a literal, as the servers write it, or of a number. */
  def readLiteral(text: String): String =
    if (text.length < 2 || !text.startsWith("'")) text
    else text.substring(1, text.length - 1).replaceAll("(?s)\\\\(.)", "$1")

  /** Splits a list at its commas outside of brackets and quotes. */
  def splitList(text: String): Seq[String] = {
    val pieces = collection.mutable.ArrayBuffer(new StringBuilder)
    var depth = 0
    scan(text) { (piece, isQuoted) =>
      if (!isQuoted && piece == ",") {
        if (depth == 0) pieces += new StringBuilder else pieces.last.append(piece)
      } else {
        if (!isQuoted && "([".contains(piece)) depth += 1
        if (!isQuoted && ")]".contains(piece)) depth -= 1
        pieces.last.append(piece)
      }
    }
    pieces.map(_.toString.trim).filter(_.nonEmpty).toSeq
  }

  /** Returns the place of a word that stands outside of brackets and quotes, or -1. */
  def findWord(text: String, word: String): Int = {
    var (place, depth, found) = (0, 0, -1)
    scan(text) { (piece, isQuoted) =>
      if (!isQuoted) {
        if ("([".contains(piece)) depth += 1
        if (")]".contains(piece)) depth -= 1
        if (depth == 0 && found < 0 && text.startsWith(word, place)) found = place
      }
      place += piece.length
    }
    found
  }

  private val quoted = """(?s)'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|.""".r

  private def scan(text: String)(step: (String, Boolean) => Unit): Unit =
    quoted.findAllIn(text).foreach(piece => step(piece, piece.length > 1))
}
