package pando.spark

import java.util

import scala.util.Try

import org.apache.spark.sql.connector.catalog.{SupportsRead, SupportsWrite, Table, TableCapability}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A table as a frame or a stream reads or writes it by name: `spark.read.format("pando")`, `df.write.format("pando")`.
 *
 * `fields` are its columns if `isInferred`, or those that the user or a frame to write gives. If they are not in the
 * types in which the table is read, the Python source converts them, or tells why they cannot be.
 */
final class FormatTable(
    given: Map[String, String], options: ReadOptions, fields: StructType, isInferred: Boolean, python: () => Table)
    extends PandoTable(given, options, fields)
    with SupportsWrite {

  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_WRITE,
    TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE)

  override def newScanBuilder(added: CaseInsensitiveStringMap): ScanBuilder =
    if (isInferred || isReadAsGiven) super.newScanBuilder(added)
    else python().asInstanceOf[SupportsRead].newScanBuilder(added)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = {
    val ofThisSide = for {
      write <- WriteOptions.parseFormat(given, options)
      natural <- describe(info.schema())
      facts = new TableFacts(options, natural)
      if facts.takes(info.schema()) && !facts.hidesNanoseconds
    } yield new PandoWriteBuilder(write, facts, info, hasFunctions = false)
    ofThisSide.getOrElse(python().asInstanceOf[SupportsWrite].newWriteBuilder(info))
  }

  /** Tells whether the table's columns are read in these types without a conversion. */
  private def isReadAsGiven: Boolean = describe(fields).exists { natural =>
    natural.length == fields.length && natural.fields.zip(fields.fields).forall { case (ours, theirs) =>
      DataType.equalsStructurally(ours.dataType, theirs.dataType) && ours.nullable == theirs.nullable
    }
  }

  /** Returns the table's columns of these names, if it has all of them. */
  private def describe(schema: StructType): Option[StructType] =
    Try(Pushing.describe(options.copy(columns = schema.fieldNames.toSeq))).toOption
}
