package pando.spark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Builds a scan of the table in the state in which another scan, of this name, has begun. */
final class BegunScanBuilder(options: ReadOptions, fields: StructType, name: String)
    extends PandoScanBuilder(options, fields) {
  override def build(): Scan = new BegunTableScan(super.build().asInstanceOf[PandoScan], name)
}

/** Reads what has begun. A stale replica cannot open another state, and passes the read on. */
private final class BegunTableScan(scan: PandoScan, name: String) extends Scan with Batch with SupportsReportStatistics {
  override def readSchema(): StructType = scan.readSchema()

  override def toBatch: Batch = this

  override def columnarSupportMode(): Scan.ColumnarSupportMode = scan.columnarSupportMode()

  override def description(): String = scan.description()

  override def estimateStatistics(): Statistics = scan.estimateStatistics()

  override def planInputPartitions(): Array[InputPartition] = scan.planInputPartitions()

  override def createReaderFactory(): PartitionReaderFactory = BegunScanReaderFactory(scan, name)

  override def supportedCustomMetrics(): Array[CustomMetric] = scan.supportedCustomMetrics()

  override def reportDriverMetrics(): Array[CustomTaskMetric] = scan.reportDriverMetrics()
}

/** Makes the readers of the slots of a scan that has begun. */
private final case class BegunScanReaderFactory(scan: PandoScan, name: String) extends PartitionReaderFactory {
  override def supportColumnarReads(partition: InputPartition): Boolean = true

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    throw new UnsupportedOperationException("slots are read in columns")

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    new SlotReader(scan, partition.asInstanceOf[SlotPartition], name)
}
