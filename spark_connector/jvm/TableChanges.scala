package pando.spark

import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.types.{ArrayType, MapType, StructType}

/**
 * The changes of Spark's ALTER TABLE as commands of ClickHouse's.
 *
 * `fields` are the columns as Spark sees them, `types` those of the server.
 */
final class TableChanges(fields: StructType, types: Map[String, String]) {

  /** Returns the command of a change of columns. Raises 48 for what is not offered. */
  def columnCommand(change: ColumnChange): String = {
    val name = SqlText.quoteName(columnOf(change))
    change match {
      case add: AddColumn =>
        if (add.defaultValue() != null) throw PandoException.notOffered("ADD COLUMN with DEFAULT is not offered")
        val comment = Option(add.comment()).map(text => s" COMMENT ${SqlText.quoteText(text)}").getOrElse("")
        s"ADD COLUMN $name ${ColumnTypes.toClickHouse(add.dataType(), add.isNullable)}$comment${placeOf(add.position())}"
      case drop: DeleteColumn => s"DROP COLUMN ${if (drop.ifExists()) "IF EXISTS " else ""}$name"
      case rename: RenameColumn => s"RENAME COLUMN $name TO ${SqlText.quoteName(rename.newName())}"
      case update: UpdateColumnComment =>
        s"COMMENT COLUMN $name ${SqlText.quoteText(Option(update.newComment()).getOrElse(""))}"
      case update: UpdateColumnType =>
        val isNullable = fields.find(_.name == columnOf(change)).forall(_.nullable)
        s"MODIFY COLUMN $name ${ColumnTypes.toClickHouse(update.newDataType(), isNullable)}"
      case update: UpdateColumnNullability if update.nullable() => s"MODIFY COLUMN $name ${makeNullable(columnOf(change))}"
      case update: UpdateColumnPosition => s"MODIFY COLUMN $name ${typeOf(columnOf(change))}${placeOf(update.position())}"
      case _: UpdateColumnNullability => throw PandoException.notOffered("SET NOT NULL is not offered")
      case _ => throw PandoException.notOffered(s"${change.getClass.getSimpleName} of a column is not offered")
    }
  }

  private def columnOf(change: ColumnChange): String = change.fieldNames() match {
    case Array(name) => name
    case names => throw PandoException.notOffered(
      s"The field ${names.mkString(".")} of a struct cannot be changed by itself")
  }

  private def typeOf(name: String): String =
    types.getOrElse(name, throw PandoException.badArguments(s"There is no column '$name'"))

  private def makeNullable(name: String): String = fields.find(_.name == name).map(_.dataType) match {
    case Some(_: ArrayType | _: MapType | _: StructType) =>
      throw PandoException.notOffered(s"The column '$name' cannot become nullable: arrays, maps and structs have no NULL")
    case _ if typeOf(name).startsWith("LowCardinality(") =>
      s"LowCardinality(Nullable(${typeOf(name).stripPrefix("LowCardinality(").stripSuffix(")")}))"
    case _ => s"Nullable(${typeOf(name)})"
  }

  private def placeOf(position: ColumnPosition): String = position match {
    case null => ""
    case after: After => s" AFTER ${SqlText.quoteName(after.column())}"
    case _ => " FIRST"
  }
}

object TableChanges {

  /** Returns the command of a change of the table itself. Raises 48 for what is not offered. */
  def tableCommand(change: TableChange): String = change match {
    case set: SetProperty if set.property() == "comment" => s"MODIFY COMMENT ${SqlText.quoteText(set.value())}"
    case unset: RemoveProperty if unset.property() == "comment" => "MODIFY COMMENT ''"
    case set: SetProperty if isSetting(set.property()) =>
      s"MODIFY SETTING ${TableDefinition.formatSetting(settingOf(set.property()), set.value())}"
    case unset: RemoveProperty if isSetting(unset.property()) =>
      val name = settingOf(unset.property())
      TableDefinition.formatSetting(name, "") // checks it
      s"RESET SETTING $name"
    case _: SetProperty | _: RemoveProperty => throw PandoException.notOffered(
      s"Only the properties 'comment' and '${TableDefinition.settingPrefix}<name>' of a table can be changed")
    case _ => throw PandoException.notOffered(s"${change.getClass.getSimpleName} is not offered by ALTER TABLE")
  }

  private def isSetting(name: String): Boolean = name.startsWith(TableDefinition.settingPrefix)

  private def settingOf(name: String): String = name.stripPrefix(TableDefinition.settingPrefix)
}
