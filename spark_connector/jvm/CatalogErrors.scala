package pando.spark

import org.apache.spark.sql.catalyst.analysis.{NamespaceAlreadyExistsException, NoSuchNamespaceException}
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.connector.catalog.Identifier

/** Errors of the servers as those that Spark knows of catalogs. All others stay Pando's, with code and message. */
object CatalogErrors {
  private val (tableExists, unknownTable, unknownDatabase, databaseExists) = (57, 60, 81, 82)

  /** Runs a step that needs the table to be there. */
  def needingTable[Result](table: Identifier)(step: => Result): Result =
    try step
    catch {
      case error: PandoException if error.code == unknownTable || error.code == unknownDatabase =>
        throw new NoSuchTableException(table)
    }

  /** Runs a step that makes a table. */
  def makingTable[Result](table: Identifier)(step: => Result): Result =
    try step
    catch {
      case error: PandoException if error.code == tableExists => throw new TableAlreadyExistsException(table)
      case error: PandoException if error.code == unknownDatabase =>
        throw new NoSuchNamespaceException(table.namespace())
    }

  /** Runs a step that makes a namespace. */
  def makingNamespace(namespace: Array[String])(step: => Unit): Unit =
    try step
    catch {
      case error: PandoException if error.code == databaseExists => throw new NamespaceAlreadyExistsException(namespace)
    }

  /** Runs a step that needs the namespace to be there. */
  def needingNamespace[Result](namespace: Array[String])(step: => Result): Result =
    try step
    catch {
      case error: PandoException if error.code == unknownDatabase => throw new NoSuchNamespaceException(namespace)
    }
}
